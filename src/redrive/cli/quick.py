"""The answer to `redrive --help`, ready to be printed; a test keeps it equal to what click makes of the commands."""

HELP = """\
Usage: redrive [OPTIONS] COMMAND [ARGS]...

  Background jobs that are not lost when they fail.

Options:
  --version            Show the version and exit.
  --url URL            The store, such as sqlite:///redrive.db.
  --app MODULE:APP     The app whose tasks and store to use.
  --config FILE        The project file, instead of the nearest redrive.toml.
  --log-level LEVEL    debug, info, warning, error or critical.
  --log-format FORMAT  text, or json for one object per line.
  --debug              Show the traceback of an error.
  -h, --help           Show this message and exit.

Commands:
  demo         See the product in half a minute, without any set-up.
  worker       Run the jobs of an app.
  workers      See who runs jobs, and have them leave.
  enqueue      Add a job, or one for each line of a file.
  jobs         List jobs, see why one does not run, cancel it.
  queues       See how deep queues are; pause, limit, move or purge them.
  dlq          Find dead letters, read them, bring them back in stages.
  redrives     See how redrives stand; pause, resume or cancel one.
  operations   See what was done to many letters; carry one on, or end it.
  prove        Add up what came, what went and what is there.
  events       Read what happened.
  doctor       Look for what is wrong, and say what to do.
  migrate      Bring the store to the schema of this version.
  config       Print the settings in force and where each comes from.
  completions  Print the completion script of a shell."""
