"""What people see of runs: progress, tables, messages."""
