// Gitea as a module: its own command line, with a SQLite that needs no C compiler.
package main

import (
	"os"
	"time"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	"code.gitea.io/gitea/modules/setting"

	_ "code.gitea.io/gitea/modules/markup/console"
	_ "code.gitea.io/gitea/modules/markup/csv"
	_ "code.gitea.io/gitea/modules/markup/markdown"

	"github.com/urfave/cli/v3"
)

var version = "development" // set by the linker

func main() {
	setting.AppVer = version
	setting.AppStartTime = time.Now().UTC()
	cli.OsExiter = func(code int) {
		log.GetManager().Close()
		os.Exit(code)
	}
	app := cmd.NewMainApp(cmd.AppVersion{Version: version})
	if err := cmd.RunMainApp(app, os.Args...); err != nil {
		os.Exit(1) // it has printed the error
	}
	log.GetManager().Close()
}
