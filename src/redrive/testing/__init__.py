"""What users and our own tests share: the contract suite, factories, and a state machine of the whole store."""
