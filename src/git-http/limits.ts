import type { Pace } from '../http/receive-body.ts'
import { shareOfMemory } from '../util/memory.ts'
import type { GitService } from './service.ts'

export interface GitLimits {
  /** Largest push in bytes. */
  maxBytes: number
  /** Milliseconds that git may work on one request. */
  timeout: number
  /**
   * Milliseconds that git may work on a push: for any, for each MB stored, and for each ref; at
   * most `timeout`. Pushes with more than `short` hold at most half of the places of pushes.
   */
  pushTime: { any: number; megabyte: number; ref: number; short: number }
  /** Maximum number of requests that git handles at a time. */
  maxChildren: number
  /** Milliseconds that a request may wait for a place. */
  maxWait: number
  /**
   * Milliseconds after which the client of a push that waits hears of it, and between two packets
   * from then on.
   */
  keepAlive: number
  /**
   * Number of bodies that may arrive at a time. Pushes need write access, so anonymous fetches
   * cannot block them.
   */
  maxBodies: Record<GitService, number>
  /**
   * Bytes of memory for the body of one fetch, and for all of them. Others go to the disk of
   * answers.
   */
  bodyMemory: { each: number; all: number }
  /** Bytes of memory for one answer, and for all answers. */
  answerMemory: { each: number; all: number }
  /** How fast a push must arrive; it begins with its pack. */
  pace: Pace
}

export const DEFAULT_GIT_LIMITS: GitLimits = {
  maxBytes: 2 * 1024 ** 3,
  timeout: 600_000,
  // Many times what honest pushes need: 500 MB 14 s, 10,000 refs 5 s. Each push has a ref, so all
  // may take longer than 40 s. Up to 42 s, small ones let others in within their wait: git needs up
  // to two seconds to end. So it is not bytes, which are cheap to compress, that buy all places.
  pushTime: { any: 40_000, megabyte: 1_000, ref: 20, short: 42_000 },
  maxChildren: 16,
  // Many proxies give up after 60 seconds. The difference leaves git time to begin its answer.
  maxWait: 45_000,
  keepAlive: 5_000,
  // A push takes up to 110 KB beside its content, most of it for gzip.
  maxBodies: { 'git-upload-pack': 384, 'git-receive-pack': 128 },
  bodyMemory: { each: 64 * 1024, all: shareOfMemory(64) },
  answerMemory: { each: 1024 ** 2, all: shareOfMemory(64) },
  // Before a client sends a large pack, and between parts of it, it compares files for long.
  pace: { bytes: 30 * 1024, window: 60_000, first: 300_000 },
}
