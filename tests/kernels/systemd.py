#!/usr/bin/python3
"""Plays systemd's manager on a D-Bus: takes the one call that groom-ns makes, judges
its arguments, and moves the process that has sent it into a cgroup called as the scope.

    systemd.py BUS-SOCKET CGROUP [REFUSE]

The protocol is jeepney's (Debian: python3-jeepney), not groom-ns's. Says `ready` when it
has its name, and ends after one call, with 1 if something in it was wrong."""

import os
import re
import sys

from jeepney import HeaderFields, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

socket, cgroup, *refuse = sys.argv[1:]
bus = open_dbus_connection(bus=f"unix:path={socket}")
(answer,) = bus.send_and_get_reply(message_bus.RequestName("org.freedesktop.systemd1")).body
assert answer == 1, answer
print("ready", flush=True)

while True:
    call = bus.receive(timeout=120)
    fields = call.header.fields
    if call.header.message_type == MessageType.method_call:
        break

assert fields[HeaderFields.path] == "/org/freedesktop/systemd1", fields
assert fields[HeaderFields.interface] == "org.freedesktop.systemd1.Manager", fields
assert fields[HeaderFields.member] == "StartTransientUnit", fields
assert fields[HeaderFields.signature] == "ssa(sv)a(sa(sv))", fields
name, mode, properties, others = call.body
assert re.fullmatch("groom-ns-[0-9a-f]{16}[.]scope", name), name
assert (mode, others) == ("fail", []), call.body
properties = dict(properties)
# 0 is the sender, by the number that it has for the bus.
assert properties.pop("PIDs") == ("au", [0]), call.body
sender = fields[HeaderFields.sender]
(pid,) = bus.send_and_get_reply(message_bus.GetConnectionUnixProcessID(sender)).body
assert properties.pop("Delegate") == ("b", True)
assert properties == {"Description": ("s", "groom-ns run")}, properties

if refuse:
    bus.send(new_error(call, "org.freedesktop.DBus.Error.AccessDenied", "s", ("no",)))
    sys.exit()
# The answer comes before the job is done, as systemd's does.
bus.send(new_method_return(call, "o", ("/org/freedesktop/systemd1/job/7",)))
scope = f"{cgroup}/{name}"
os.mkdir(scope)
with open(f"{scope}/cgroup.procs", "w") as procs:
    procs.write(str(pid))
print(name, flush=True)
