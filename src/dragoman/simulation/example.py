"""A scenario to begin with: every key, with its default and what it means."""

from __future__ import annotations

EXAMPLE = """\
# A scenario for `dragoman simulate`. Everything has a default: leave out what you do not care for.
#
# A duration is a number, or a shape to draw from:
#   400                                   always the same
#   { mean = 400 }                        exponential
#   { low = 100, high = 300 }             any value between the two
#   { median = 400, p95 = 900 }           lognormal: mostly near the median, now and then far above
#   { mean = 400, deviation = 100 }       gamma
#   { samples = [390, 410, 385] }         as it was measured
#   { metrics = "metrics.txt" }           from a page saved from a server's /metrics
#   { results = "run.csv" }               from a lab run's export; field = "..." names the column

[simulation]
name = "monday"
duration_seconds = 3600       # of life
warmup_seconds = 60           # what is asked for before is not counted
start_time = "09:00"          # the time of day at which it begins; curves refer to it
instances = 1                 # of the scheduler; with 2 or more they share a simulated Redis
link_ms = { low = 1, high = 5 }   # a message's way between the scheduler and a node or a client
redis_ms = 0.5                # the way to Redis and back

[[fleet]]
name = "gpu"
nodes = 12
slots = 4                     # jobs that a node works on at a time
languages = ["en", "es", "fr"]    # asr, nmt, tts, semantic = [...] set one service apart
service_ms = { median = 700, p95 = 1500 }
audio_ms_per_second = 0       # how much longer for each second of speech
failure_share = 0.0           # of jobs; the scheduler tries another node
fails_every_seconds = 0       # mean time between a node's failures; 0: never
down_seconds = 30             # how long a node that failed is gone
loses_work = true             # whether its work is lost with it
reconnect_seconds = { low = 0.5, high = 2 }
cost = 1.0                    # of a node, in any unit, for --plan
min_nodes = 0                 # what --plan may choose
max_nodes = 200

[[traffic]]
name = "speakers"
kind = "sessions"             # or "jobs" (POST /jobs), or "batch" (what live work leaves free)
pair = "en:es"                # "en:es,fr" translates each utterance into both
input = "speech"              # or "text"
sessions = 150                # open all the time; or starts_per_hour = .. with session_seconds
utterance_ms = { median = 2000, p95 = 5000 }
pause_ms = { mean = 2700 }    # from the end of an utterance to the beginning of the next
curve = { "00:00" = 0.2, "08:00" = 0.6, "10:00" = 1.0, "18:00" = 0.7 }   # over the day

[[traffic]]
name = "callers"
kind = "jobs"
pair = "en:fr"
input = "text"
jobs_per_second = 2.0
waits = false                 # true: a job waits for a slot, as with wait_ms

# [[fault]]
# kind = "node"               # group, link, instance, redis, slow or lying
# at_seconds = 900
# for_seconds = 120
# group = "gpu"               # whose nodes; without it, of any group
# nodes = 3                   # how many; the seed decides which
# factor = 5                  # of "slow": how many times as long jobs take

[settings]                    # as in a settings file
scheduler.selection.strategy = "random"   # power_of_two, least_loaded, latency_weighted
scheduler.job_timeout.pending_seconds = 10
"""
