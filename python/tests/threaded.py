"""A package that starts a thread when it is imported, as some do to report on their users."""

import threading

threading.Thread(target=threading.Event().wait, name="reporter", daemon=True).start()
