"""Registered domains, by the list that comes with the package, without a network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.calendar import Calendar
from taskqueue.hosts.registered_domains import domain_of, registered_domain
from taskqueue.settings.environment import Environment

ENVIRONMENT: Environment = Calendar()


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.news.example.co.uk", "example.co.uk"),
        ("example.co.uk.", "example.co.uk"),
        ("co.uk", ""),
        ("ann.github.io", "ann.github.io"),
        ("github.io", ""),
        ("www.xn--mller-kva.de", "xn--mller-kva.de"),
        ("www.müller.de", "müller.de"),
        ("www.shop.xn--p1ai", "shop.xn--p1ai"),
        ("a.b.example.nowhere", "example.nowhere"),
        ("localhost", ""),
        ("127.0.0.1", ""),
        ("[::1]", ""),
        ("a..b", ""),
        (".", ""),
        ("", ""),
    ],
)
def test_a_domain_is_told_by_the_public_suffix_list(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk:8080", "example.co.uk"),
        ("ann.github.io", "ann.github.io"),
        ("github.io", "github.io"),
        ("co.uk:81", "co.uk"),
        ("localhost:8080", "localhost"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("[2001:db8::1]:8080", "[2001:db8::1]"),
        ("[::1]", "[::1]"),
        ("a..b", "a..b"),
    ],
)
def test_a_host_without_a_registered_domain_is_its_own_whatever_its_port(host: str, domain: str) -> None:
    assert domain_of(host) == ENVIRONMENT.domain(host) == domain


@given(st.text("ab.:[]1ü-", min_size=1))
def test_the_domain_of_a_domain_is_the_domain(host: str) -> None:
    domain = domain_of(host)

    assert domain_of(domain) == domain
