from fleet_operator.cli import main

main()
