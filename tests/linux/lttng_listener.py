# SPDX-License-Identifier: MIT
"""A client of LTTng's notifications, by its library. Prints "listening", then a line for each
notification: the trigger's name, then the captured values."""
import ctypes
import ctypes.util

LTTNG = ctypes.CDLL(ctypes.util.find_library("lttng-ctl"))
OK = 10  # LTTNG_OK, of the calls that return an error code


def call(name, *arguments, result=ctypes.c_int):
    function = getattr(LTTNG, name)
    function.restype = result
    return function(*arguments)


def out(name, of, *arguments, kind=ctypes.c_void_p):
    """Return the value that a call stores through its last argument; None if it failed."""
    value = kind()
    status = call(name, of, *arguments, ctypes.byref(value))
    return value if status in (0, OK) else None


def subscribe(channel):
    triggers = ctypes.c_void_p()
    assert call("lttng_list_triggers", ctypes.byref(triggers)) == OK
    for number in range(out("lttng_triggers_get_count", triggers, kind=ctypes.c_uint).value):
        trigger = call("lttng_triggers_get_at_index", triggers, number, result=ctypes.c_void_p)
        condition = call("lttng_trigger_get_const_condition", ctypes.c_void_p(trigger),
                         result=ctypes.c_void_p)
        assert call("lttng_notification_channel_subscribe", channel,
                    ctypes.c_void_p(condition)) == 0


def captured(notification):
    """Return the captured numbers and texts."""
    evaluation = ctypes.c_void_p(call("lttng_notification_get_evaluation", notification,
                                      result=ctypes.c_void_p))
    values = out("lttng_evaluation_event_rule_matches_get_captured_values", evaluation)
    if values is None:
        return
    for number in range(out("lttng_event_field_value_array_get_length", values,
                            kind=ctypes.c_uint).value):
        value = out("lttng_event_field_value_array_get_element_at_index", values, number)
        one = out("lttng_event_field_value_unsigned_int_get_value", value, kind=ctypes.c_uint64) \
            or out("lttng_event_field_value_string_get_value", value, kind=ctypes.c_char_p)
        yield one.value.decode() if isinstance(one.value, bytes) else str(one.value)


def main():
    endpoint = ctypes.c_void_p.in_dll(LTTNG, "lttng_session_daemon_notification_endpoint")
    channel = ctypes.c_void_p(call("lttng_notification_channel_create", endpoint,
                                   result=ctypes.c_void_p))
    subscribe(channel)
    print("listening", flush=True)
    while True:
        notification = out("lttng_notification_channel_get_next_notification", channel)
        assert notification is not None
        trigger = ctypes.c_void_p(call("lttng_notification_get_trigger", notification,
                                       result=ctypes.c_void_p))
        name = out("lttng_trigger_get_name", trigger, kind=ctypes.c_char_p).value.decode()
        print(name, *captured(notification), flush=True)


main()
