"""Offsets in the structures shared by generated code and Python: context, warp, buffer row, counter record.

All offsets are bytes; every field is 8 bytes unless said otherwise. Python fills them through NumPy views.
"""

from __future__ import annotations

# Virtual addresses. The windows of shared, local and parameter memory lie far above every buffer.
MODULE_BASE = 0x0000_0600_0000_0000
CONST_BASE = 0x0000_0680_0000_0000
GLOBAL_BASE = 0x0000_0700_0000_0000
BUFFER_GAP = 1 << 24
SHARED_WINDOW = 0x0000_7000_0000_0000
LOCAL_WINDOW = 0x0000_7100_0000_0000
PARAM_WINDOW = 0x0000_7200_0000_0000
WINDOW_SIZE = 1 << 32

# Context -------------------------------------------------------------------------------------------------------
_CTX = [
    "fault_count", "budget", "buffers", "buffer_count", "shared_size", "params", "param_size", "tag_sets",
    "tag_ways",
    "warp_stride", "warp_count", "threads", "block_ids", "blocks", "ntid_x", "ntid_y", "ntid_z", "nctaid_x",
    "nctaid_y", "nctaid_z", "counters", "faults", "local_size", "race", "blocks_done",
    "heaviest",  # warp instructions of the block that took most
    "longest",  # ... and of the warp
    "squares",  # the sum over blocks of the square of theirs
    "dynamic_shared", "shared_clear", "queue_size", "granule", "releases", "prints", "print_count", "next_block",
    "reader_stride", "residents", "resident_count", "changes", "seen_changes", "idle", "idle_limit", "template",
    "oldest",
    "block_budget",  # warp instructions of one block; 0: only those of the launch are bounded
    "equal_stores",  # the record of a store of what another block has stored already
    "fenced",  # some warp has executed a fence
    "known",  # per warp of the launch two rows: the newest record of each warp that it has taken up; 0 if not kept
    "known_flags",  # such rows that were left at flags
    "known_rows",  # of flags, a power of two
    "known_stride",  # bytes of a row
    "voices",
    # Warps take their turns, and lanes their atomics, from the last to the first, and who takes the next from a counter
    # in a loop leaves the one after to others.
    "backwards",
    # Blocks take short turns, up to where their warps wait, and of these is counted: rounds, turns in which a block did
    # more than wait, what those spent, what the longest of each round spent, and that of this round.
    "fair", "rounds", "busy_turns", "busy", "critical", "longest_turn",
    "left",  # what sums by atomics, and results before they are rounded, have come to (`mixed`)
]  # fmt: skip
# Fields that belong to one block: with several blocks under way they are exchanged as one piece.
_BLOCK = [
    "shared", "state", "writer", "reader", "newest", "struck", "tags", "last_sector", "last_counted", "warps",
    "block_linear",
    "ctaid_x", "ctaid_y", "ctaid_z", "local", "local_state", "clocks", "told", "flags", "clock_base", "barriers",
    "queue", "slot", "acquired", "mbarriers", "copies", "copies_head", "copies_tail",
]  # fmt: skip
CTX: dict[str, int] = {name: 8 * index for index, name in enumerate((*_CTX, *_BLOCK))}
CTX_SIZE = 8 * len(CTX)
OF_BLOCK = frozenset(_BLOCK)
BLOCK_AT, BLOCK_SIZE = CTX[_BLOCK[0]], 8 * len(_BLOCK)
RESIDENT_SIZE = BLOCK_SIZE + 8  # the fields of a block under way, and whether there is one

IDLE_PER_WARP = 256  # yields of a warp in which nothing changed anywhere, before it counts as waiting for ever

# Buffer row ----------------------------------------------------------------------------------------------------
ROW: dict[str, int] = {
    name: 8 * index
    for index, name in enumerate(("low", "size", "delta", "flags", "touched", "state", "writers", "readers"))
}
ROW_SIZE = 64
# In a buffer's map of sectors: read; written by a block of the first half of the list of blocks, or of the second.
READ, WRITTEN, WRITTEN_LATE = 1, 2, 4
WRITABLE, TRACKED = 1, 2  # row flags; a tracked buffer has one state byte per 4-byte word

# Counter record, one per memory instruction ----------------------------------------------------------------------
_RECORD = [
    "low",
    "limit",  # first offset from `low` that does not fit; 0 while no buffer is remembered
    "delta", "row", "requests", "lanes", "sectors", "lines", "passes", "wavefronts", "ideal", "l1_misses", "strong",
    "memo_mask", "memo_waves", "memo_ideal", "marks",
    "alone",  # sectors that are written, or that a load misses, without another of their line
]  # fmt: skip
REC: dict[str, int] = {name: 8 * index for index, name in enumerate(_RECORD)}
# In a record's marks: a load through the read-only cache; a strong one in a poll; a matrix of which nobody may know
# what lane has what; an atomic that only its own block sees in order; a strong load whose value is taken on; a load
# that the first-level cache may answer; a load of bytes that need not have been written.
READ_ONLY_LOAD, POLLING_LOAD, ANY_LANE, BLOCK_SCOPE, IN_LOCAL, TAKES_VALUE, CACHED_LOAD = 1, 2, 4, 8, 16, 32, 64
MOVES_ONLY = 128
# Above these marks, where the array of an access begins and ends: in local memory, if marked so, or in shared memory
# (all of that if none is known).
ARRAY_START, ARRAY_END, ARRAY_BITS = 16, 40, 24
REC_MEMO = 192  # <32 x i32>: the lane offsets whose wavefronts are remembered
REC_SIZE = 512  # a power of two

# Warp ----------------------------------------------------------------------------------------------------------
_WARP = [
    "state", "resume", "live", "index", "pending", "barrier_id", "barrier_count", "barrier_kind", "barrier_value",
    "queue_head", "queue_tail", "group_committed", "frame", "barrier_site", "safe_clock",
    "together",  # its clock when all its lanes last met
    "safe_since",  # ... counted from the start of the block
    "arrived", "ahead",
    "overtaken",  # lanes have run while others poll
    "turns",
    "spent",  # instructions so far
    "alone",  # clocks, the last << 32 | the first, of which a flag that lanes set by themselves tells what these did
    "speakers",  # ... they, and those that they had met
]  # fmt: skip
WARP: dict[str, int] = {name: 8 * index for index, name in enumerate(_WARP)}
WARP_TID = 192  # three <32 x i32>
WARP_SYNC = 576  # <32 x i32>: the masks of lanes that are held at a warp barrier
WARP_SCRATCH = 704  # 512 bytes of data + spare: packed lanes of a memory access
WARP_SCRATCH_SIZE = 4096
WARP_LANES = WARP_SCRATCH + WARP_SCRATCH_SIZE  # 32 times <32 x i32>: the clock when a lane last met each other lane
WARP_PEND = WARP_LANES + 32 * 128  # pending masks, then registers

READY, WAITING, DONE = 0, 1, 2

# mbarrier object: pending arrivals, expected arrivals, phase, and a mark that tells one from other bytes
MB_COUNT_BITS, MB_PHASE, MB_MARK_AT, MB_MARK = 20, 40, 48, 0xB0A7
MB_CLOCKS = 256  # per 8 bytes of shared memory: clocks of the arrivals of this phase, and of the last one

# cp.async.mbarrier.arrive: the clocks of the warp then, the address, the warp, how far its queue was, lanes, done
COPY = {name: 128 + 8 * index for index, name in enumerate(("address", "warp", "tail", "lanes", "done"))}
COPY_SIZE = 192
COPY_LENGTH = 512

# cp.async queue entry: offsets of 32 lanes, then mask, size, group
QUEUE_MASK, QUEUE_SIZE, QUEUE_GROUP, QUEUE_ENTRY = 128, 136, 144, 192
QUEUE_LENGTH = 512

# Fault record ----------------------------------------------------------------------------------------------------
FAULT: dict[str, int] = {
    name: 8 * index
    for index, name in enumerate(("kind", "instruction", "block", "warp", "lane", "address", "extra", "width"))
}
FAULT_SIZE = 64
FAULT_LIMIT = 16
STACK_BYTES = 4096  # of one thread; CUDA reserves 1024 unless told otherwise, but packs frames more tightly

MAX_WARPS = 32
FLAGS, FLAG_SIZE = 512, 4 * MAX_WARPS  # notes left at flags, by a hash of their addresses
MOST_KNOWN = 4096  # warps of a launch of which each may know the releases of each
FLAG_BYTES = 2 << 20  # of rows that are left at flags, unless FLAGS of them take more

# Voice of a warp, see runtime/inter_block_order.py: fields, then two vectors of clocks, then its last records
_VOICE = [
    "number",  # of its newest record
    "speakers",  # lanes that have fenced by themselves, or had met one that did
    "fence_clock", "fencers",
    "version",  # grows with what it could tell
    "recorded",  # what its newest record says
    "firm_number",  # of the record that all its lanes may tell
    "fresh_clock",  # when it last took something up
    "learners",  # lanes that have, since all met
    "first_learnt",  # its clock then, from the start of the block
    "acquired_clock",  # when one of its lanes first looked at a flag
    "acquirers",
    "acquired_since",  # acquired_clock from the start of the block
    "news",  # what a barrier has to hand on
    "seen_flag", "seen_count",
    "unfenced",  # it has taken something up, and its block has not fenced since
]  # fmt: skip
VOICE: dict[str, int] = {name: 8 * index for index, name in enumerate(_VOICE)}
VOICE_ALL, VOICE_LEADER, VOICE_RECORDS = 192, 192 + 4 * MAX_WARPS, 192 + 8 * MAX_WARPS
RECORDS, RECORD_SIZE = 16, 8 * MAX_WARPS + 64  # both vectors, and the clock when it was last told
VOICE_SIZE = VOICE_RECORDS + RECORDS * RECORD_SIZE
FLAG_HEAD: dict[str, int] = {"count": 0, "teller": 8, "told": 16}  # how often told; who told last, and what
FLAG_HEAD_SIZE = 64
BARRIERS = 16

L1_WAYS = 4  # at most

# Races in global memory: a stamp is (slot of the block + 1) << STAMP_SLOT | releases so far << STAMP_RELEASE
# | the warp's clock in this block << STAMP_CLOCK | thread. The largest clock and release count stand for all beyond.
# The two bits above: an atomic, a strong access; both of them: an atomic of block scope.
STAMP_SLOT, STAMP_RELEASE, STAMP_CLOCK = 38, 28, 10
STAMP_ATOMIC, STAMP_STRONG = 1 << 63, 1 << 62
STAMP_RELEASES, STAMP_CLOCKS, STAMP_THREADS = 0x3FF, 0x3FFFF, 0x3FF
OTHER_BLOCK, OTHER_READ = 1 << 61, 1 << 60  # in a fault's extra: the other end of a race is in another block; it read

# Bits of a shared writer's stamp that name its instruction; a synchronising store leaves STRONG_SITE, which becomes
# POLLED_SITE when another lane of its warp has polled it
POLLED_SITE, STRONG_SITE = 0xFFFD, 0xFFFE

# In a barrier fault's extra: there is no mbarrier object; more arrive, or are to arrive, than can; there still is one
NO_MBARRIER, TOO_MANY, STILL_VALID = 1 << 33, 1 << 34, 1 << 36
NO_BARRIER = 1 << 35  # in a barrier fault's extra: its number is none that a block has

HELD = 1 << 9  # in a warp_sync fault's extra: lanes wait for this one
SOURCE_LANE = 1 << 8  # in a warp_sync fault's extra: the lane was a shuffle's source

# printf record: one per call and lane ------------------------------------------------------------------------------
PRINT: dict[str, int] = {name: 8 * index for index, name in enumerate(("block", "thread", "format", "length", "data"))}
PRINT_DATA = 256  # bytes of arguments that are kept
PRINT_SIZE = PRINT["data"] + PRINT_DATA
PRINT_LIMIT = 4096  # records of a launch; one more is written over and over
WRONG_COUNT = 1 << 32  # in a barrier fault's extra: the rest is the number of threads that a warp waits for
