"""What a store may raise; an expected "no" is never an exception but an answer of the port.

StoreError
├── StoreUnavailable      the store could not be reached, or refused; a read gave nothing
│   ├── WriteInDoubt      the store did not answer a write: it may or may not have been applied
│   └── SchemaOutdated    the store is there, but was not migrated, or not to the version that this code needs
├── UnknownFormat         a record carries a format number this version does not know: fail closed
├── PartMissing           of a value that is stored in parts one is gone: fail closed, nothing is rebuilt
├── NotWritten            upstream's protocol has no answer for a write that was too late; nothing was written
└── NotSupported          the adapter cannot do this at all (no transactions for tools, say)
"""


class StoreError(Exception):
    """Base of everything a store raises."""


class StoreUnavailable(StoreError):
    """The store could not be reached or refused to serve; nothing was read."""


class WriteInDoubt(StoreUnavailable):
    """A write got no answer: it may have been applied. Repeat it with the same `write_id` to find out."""


class SchemaOutdated(StoreUnavailable):
    """The store's schema is missing or older than this code; the message names the command that migrates it."""


class UnknownFormat(StoreError):
    """A stored value has a format number that this version cannot read."""


class PartMissing(StoreError):
    """A part of a stored value is gone; the message names it. Nothing is rebuilt from the other parts."""


class NotWritten(StoreError):
    """Nothing was written: another writer was first, or the thread is not this caller's to write now."""


class NotSupported(StoreError):
    """This adapter cannot do what was asked, whatever the state of the store."""
