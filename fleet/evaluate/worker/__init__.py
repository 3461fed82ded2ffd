"""The child process that runs user code. Only the zygote imports the model that stacks are written with."""
