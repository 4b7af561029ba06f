"""What a chaos run leaves for a reader: a page, numbers for programs, a result for CI, a summary in the terminal."""

from loadtests.report.files import write_report
from loadtests.report.terminal import show

__all__ = ["show", "write_report"]
