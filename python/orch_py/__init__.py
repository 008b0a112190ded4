"""The Python tool of orch: a worker server and the jobs that only Python can do.

Everything here is told what to do by a JSON line and answers with one. Nothing here decides what runs, when, or
whether a result may be reused: orch does.
"""
