"""The pictures: drawn from the recorded objects of a real run, never by hand.

Goes in: graphs, explanations, measurements.  Comes out: `Picture`s (SVG with a text form) and matplotlib figures in one
style.  Mirrors `torch/fx/passes/graph_drawer.py` and tlparse.  Taught in every chapter.
"""

# ruff: noqa: F401 (the names that the notebooks use)
from .addresses import AddressMap, draw_addresses
from .breaks import draw_before_after, draw_breaks
from .calls import draw_calls, record_calls
from .control_flow import depth_listing, draw_control_flow
from .costs import draw_costs, load_costs, measure_costs
from .effects import draw_effects
from .film_strip import FilmStrip
from .fusion import draw_bytes, draw_fusion, draw_why
from .graphs import draw_graph
from .guards import GuardTree, draw_guards
from .joint import draw_cut, draw_joint, draw_split
from .lines import LineMap, draw_lines
from .machine import print_versions
from .picture import Picture
from .recompiles import Coverage, draw_coverage, draw_recompiles, draw_sizes, record_recompiles
from .recorded import draw_bandwidth, draw_launches, draw_modes, draw_race, load_recorded, machine_of, measure_bandwidth
from .roofline import draw_roofline, measure_points, measure_roof
from .saved import SavedBytes, draw_budget, draw_passes, draw_saved
from .scaling import draw_scaling, measure_threads, measure_widths, report_text
from .show import show_c, show_source, show_text
from .stages import draw_snapshots, draw_stage_times, stage_strip
from .tiles import draw_tiles, record_launches
