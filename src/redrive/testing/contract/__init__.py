"""The contract suite: every rule that a store keeps, for the author of an engine to run.

    class TestMyStore(StoreContract):
        def make(self, place, clock, settings, boot):
            return MyStore(place, clock=clock, settings=settings, boot=boot)

`pytest.register_assert_rewrite("redrive.testing")` in your conftest.py makes failures tell what was compared.
"""

from redrive.testing.contract.adding import AddingRules
from redrive.testing.contract.claiming import ClaimingRules
from redrive.testing.contract.disposing import DisposingRules
from redrive.testing.contract.editing import EditingRules
from redrive.testing.contract.finding import FindingRules
from redrive.testing.contract.journal import JournalRules
from redrive.testing.contract.letters import LetterRules
from redrive.testing.contract.marking import MarkingRules
from redrive.testing.contract.operating import OperatingRules
from redrive.testing.contract.operations import OperationRules
from redrive.testing.contract.proving import ProvingRules
from redrive.testing.contract.reading import ReadingRules
from redrive.testing.contract.redriven import RedrivenRules
from redrive.testing.contract.redrives import RedriveRules
from redrive.testing.contract.reshaping import ReshapingRules
from redrive.testing.contract.retaining import RetainingRules
from redrive.testing.contract.reviewing import ReviewingRules
from redrive.testing.contract.sampling import SamplingRules
from redrive.testing.contract.settling import LeaseRules, SettlingRules
from redrive.testing.contract.taking import TakingRules
from redrive.testing.contract.workers import WorkerRules


class StoreContract(
    AddingRules,
    ClaimingRules,
    SettlingRules,
    LeaseRules,
    LetterRules,
    FindingRules,
    MarkingRules,
    DisposingRules,
    TakingRules,
    RedriveRules,
    RedrivenRules,
    ReshapingRules,
    EditingRules,
    ReviewingRules,
    SamplingRules,
    OperatingRules,
    OperationRules,
    ReadingRules,
    WorkerRules,
    JournalRules,
    ProvingRules,
    RetainingRules,
):
    """All rules; a subclass says how its store is made."""
