"""The routes of the watchdog: incidents and the evidence of hangs, rules, notifications."""
