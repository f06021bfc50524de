"""What people do with models and runs: functions with typed results, for all front ends."""
