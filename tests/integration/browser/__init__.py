"""Browser tests of the dashboard, in a package of their own, so that the browser ends with its last test
(``conftest``)."""
