"""Who acts, as the journal names them."""


def actor() -> str:
    """User and host."""
    import getpass  # lazily, with the next: few calls of the command line change anything
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        import os

        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
