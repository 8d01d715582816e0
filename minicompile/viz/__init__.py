"""The pictures: drawn from the recorded objects of a real run, never by hand.

Goes in: graphs, explanations, measurements.  Comes out: `Picture`s (SVG with a text form) and matplotlib figures in one
style.  Mirrors `torch/fx/passes/graph_drawer.py` and tlparse.  Taught in every chapter.
"""

from .addresses import AddressMap as AddressMap
from .addresses import draw_addresses as draw_addresses
from .breaks import draw_before_after as draw_before_after
from .breaks import draw_breaks as draw_breaks
from .calls import draw_calls as draw_calls
from .calls import record_calls as record_calls
from .control_flow import depth_listing as depth_listing
from .control_flow import draw_control_flow as draw_control_flow
from .costs import draw_costs as draw_costs
from .costs import load_costs as load_costs
from .costs import measure_costs as measure_costs
from .effects import draw_effects as draw_effects
from .film_strip import FilmStrip as FilmStrip
from .fusion import draw_bytes as draw_bytes
from .fusion import draw_fusion as draw_fusion
from .fusion import draw_why as draw_why
from .graphs import draw_graph as draw_graph
from .guards import GuardTree as GuardTree
from .guards import draw_guards as draw_guards
from .joint import draw_cut as draw_cut
from .joint import draw_joint as draw_joint
from .joint import draw_split as draw_split
from .lines import LineMap as LineMap
from .lines import draw_lines as draw_lines
from .machine import print_versions as print_versions
from .picture import Picture as Picture
from .recompiles import draw_recompiles as draw_recompiles
from .recompiles import record_recompiles as record_recompiles
from .recorded import draw_bandwidth as draw_bandwidth
from .recorded import draw_launches as draw_launches
from .recorded import draw_modes as draw_modes
from .recorded import draw_race as draw_race
from .recorded import load_recorded as load_recorded
from .recorded import machine_of as machine_of
from .recorded import measure_bandwidth as measure_bandwidth
from .roofline import draw_roofline as draw_roofline
from .roofline import measure_points as measure_points
from .roofline import measure_roof as measure_roof
from .saved import SavedBytes as SavedBytes
from .saved import draw_budget as draw_budget
from .saved import draw_passes as draw_passes
from .saved import draw_saved as draw_saved
from .scaling import draw_scaling as draw_scaling
from .scaling import measure_threads as measure_threads
from .scaling import measure_widths as measure_widths
from .scaling import report_text as report_text
from .show import show_c as show_c
from .show import show_source as show_source
from .show import show_text as show_text
from .sizes import Coverage as Coverage
from .sizes import draw_coverage as draw_coverage
from .sizes import draw_sizes as draw_sizes
from .stages import draw_snapshots as draw_snapshots
from .stages import stage_strip as stage_strip
from .tiles import draw_tiles as draw_tiles
from .tiles import record_launches as record_launches
from .timeline import draw_stage_times as draw_stage_times
