"""What watching the fleet costs those who speak: storms of reports, slow stats, large fleets."""
