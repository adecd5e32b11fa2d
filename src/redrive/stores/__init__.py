"""The engines that hold the truth, one folder each."""
