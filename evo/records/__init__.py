"""Records of all trials, the git ledger, the leaderboard, statistics over records."""
