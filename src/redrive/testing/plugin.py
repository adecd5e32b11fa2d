"""The pytest plugin: fixtures for tests of users' own tasks."""
