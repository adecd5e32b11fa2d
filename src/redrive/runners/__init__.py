"""How a handler's code is run: on the loop, in a thread, or in a child process."""
