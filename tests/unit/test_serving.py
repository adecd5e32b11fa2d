"""Whether anybody would run the jobs of a redrive."""

from redrive.serving import unserved
from redrive.testing.factories import a_worker


def test_somebody_has_to_be_alive() -> None:
    assert unserved([], ["mail"], ["email"]) == "no worker is alive"
    assert unserved([a_worker(state="draining", tasks=("mail",))], ["mail"], []) == "no worker is alive"


def test_every_queue_has_to_be_served() -> None:
    """A worker without queues serves all of them."""
    one = a_worker(tasks=("mail",), queues=("email",))
    assert unserved([one], ["mail"], ["email", "slow"]) == "no worker that is alive serves queue slow"
    assert unserved([one, a_worker(tasks=())], ["mail"], ["email", "slow"]) is None


def test_every_task_has_to_be_known() -> None:
    assert unserved([a_worker(tasks=("mail",))], ["mail", "pay"], []) == "no worker that is alive knows task pay"
