"""Output for users, on a terminal or in a log, in which foreign text is never obeyed.

All output of the commands, the demo and the logs goes through one of three doors, each of which makes it visible
(``taskqueue.texts.visible_text``) as the last step, so that no view has to think of it:

    a line          ``lines.say``
    a table         ``screen.Screen``, with cells of ``screen.Text``; it knows no markup, so "[red]" is a text
    a log line      ``log_lines.LogLines``

JSON has its own door: ``cli.output.json_output``.

Here may live what knows how a terminal reads text; nothing here knows what the text is about.
"""
