"""Questions to a browser about a page at any width: is anything cut, or beyond the window outside a scrolling frame?"""

FITS = {
    # What leaves the window, unless it is inside a frame that scrolls.
    "beyond": """[...document.body.querySelectorAll('*')].filter(e => !e.parentElement.closest('.frame')
        && e.checkVisibility() && (e.getBoundingClientRect().right > innerWidth + 1
        || e.getBoundingClientRect().left < -1)).map(e => e.tagName + '.' + e.getAttribute('class'))""",
    # What hides a part of itself.
    "cut": """[...document.body.querySelectorAll('*')].filter(e => e.checkVisibility()
        && e.scrollWidth > e.clientWidth + 1 && ['hidden', 'clip'].includes(getComputedStyle(e).overflowX)
        && !(e instanceof SVGElement)).map(e => e.tagName + '.' + e.getAttribute('class'))""",
    # Frames that scroll and do not say so, cannot be selected, or cannot be named; and hints where nothing scrolls.
    "silent": """[...document.querySelectorAll('.frame')].filter(e => e.checkVisibility()).filter(e => {
        const scrolls = e.scrollWidth > e.clientWidth, hint = e.querySelector('.hint');
        e.focus();
        return document.activeElement !== e || !e.getAttribute('aria-label') || e.getAttribute('role') !== 'group'
            || hint.checkVisibility() !== scrolls || (scrolls && hint.getBoundingClientRect().right > innerWidth)
        }).map(e => e.getAttribute('aria-label'))""",
    "scrolling": "[...document.querySelectorAll('.frame')].filter(e => e.scrollWidth > e.clientWidth).length",
}
WIDTHS = (400, 800, 1280)


def assert_fits(values: dict[str, object]) -> None:
    """Fails with what does not fit."""
    wrong = {name: values[name] for name in ("beyond", "cut", "silent") if values[name]}
    assert not wrong, wrong
