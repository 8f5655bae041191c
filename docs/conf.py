"""How Sphinx builds the site: `make docs`."""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from extensions import gallery, inventories, mathjax, names  # noqa: E402
from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

from hardmax import __version__  # noqa: E402

project, author = "hardmax", "The hardmax developers"
copyright = "The hardmax developers"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "extensions.cards",
    "extensions.command_line",
    "extensions.docstrings",
    "extensions.live",
    "extensions.reference",
]
exclude_patterns = ["extensions", "static"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
suppress_warnings = [
    "config.cache"
]  # functions in the gallery's settings cannot be kept with the environment
templates_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
mathjax_path = mathjax.path(HERE / "static")
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
toc_object_entries = False  # every name has a heading
autodoc_typehints = "none"  # shapes and meanings are in the docstrings
default_role = "code"  # `name` in docstrings, as in Markdown
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = names.types(
    HERE / "reference"
)  # types that are documented here or elsewhere are links
numpydoc_xref_ignore = "all"
DEFAULT_LINKS.clear()  # other words, such as bool, are no links
autosummary_generate = False  # every name has its place on a page
intersphinx_mapping = inventories.mapping(HERE / "gallery" / "inventories")
sphinx_gallery_conf = gallery.settings()

html_title = "hardmax"
html_theme = "pydata_sphinx_theme"
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "hardmax"},
    "header_links_before_dropdown": 8,
    "navigation_with_keys": True,
    "collapse_navigation": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system
html_sidebars = {"index": [], "changelog": []}


def setup(app: Any) -> None:
    """Crop thumbnails after the examples have run."""
    app.connect("builder-inited", gallery.crop_thumbnails, priority=900)
