"""The child process that runs user code. Only the zygote loads what users write with."""
