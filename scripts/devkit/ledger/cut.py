"""Cuts the TCP connections of another process, which goes on: whatever was on its way is lost."""

import ctypes
import errno
import os
import socket

import psutil

PIDFD_GETFD = 438  # the same number on every architecture; Linux 5.6


def cut_connections(pid: int) -> int:
    """How many were cut; both ends are told that the other has hung up.

    Raises OSError where the kernel does not let us: the process has to be a child or our own.
    """
    cut = 0
    process = os.pidfd_open(pid)
    try:
        for connection in psutil.Process(pid).net_connections("tcp"):
            if connection.status == psutil.CONN_ESTABLISHED:
                cut += _shut_down(process, connection.fd)
    finally:
        os.close(process)
    return cut


def _shut_down(process: int, descriptor: int) -> bool:
    """False: it has ended meanwhile."""
    kernel = ctypes.CDLL(None, use_errno=True)
    copy = kernel.syscall(PIDFD_GETFD, process, descriptor, 0)
    if copy < 0:
        number = ctypes.get_errno()
        if number == errno.EBADF:
            return False
        raise OSError(number, os.strerror(number))
    with socket.socket(fileno=copy) as connection:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
    return True
