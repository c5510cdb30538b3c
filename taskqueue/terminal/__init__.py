"""What people see, on a terminal or in a log: nothing that somebody else wrote is obeyed there.

Everything that the commands, the demo and the daemon's log show goes through one of three doors, each of which makes
it visible (``taskqueue.visible_text``) as the last thing before it is shown, so that no view has to think of it:

    a line          ``lines.say``
    a table         ``screen.Screen``, with cells of ``screen.Text``; it knows no markup, so "[red]" is a text
    a line of a log ``log_lines.LogLines``

JSON has its own: ``cli.output.json_output``.

Here may live what knows how a terminal reads text; nothing here knows what the text is about.
"""
