"""What is kept of every trial: records, the git ledger, the leaderboard, statistics over records."""
