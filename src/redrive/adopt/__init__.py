"""What other systems have kept of their failures, as letters."""
