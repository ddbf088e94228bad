import { Unavailable } from '../util/expected-errors.ts'
import type { Addresses } from './addresses.ts'
import { SlotTime } from './slot-time.ts'

/** How much a `FairQueue` admits. Counts are of callers, the time is in milliseconds. */
export interface FairQueueLimits {
  /** Callers admitted at a time. */
  slots: number
  /** Callers of one client admitted at a time. */
  slotsPerClient: number
  /** The same for long callers: those that keep a slot longer than others wait. */
  long?: { slots: number; slotsPerClient: number }
  /**
   * Callers that wait for a slot, 1,000 by default. When this many wait, the client with the most
   * waiting callers loses one. A caller that waits for any of several clients counts once.
   */
  waiting?: number
  /** Callers of one client that wait for a slot, 250 by default. */
  waitingPerClient?: number
  /** Longest wait, 10,000 by default. */
  timeout?: number
  /** Whether a slot becomes free in the next turn of the event loop, so that others come in between. */
  oncePerTurn?: boolean
}

/** On whose behalf something is done, and waits to be done. */
export interface QueueClient {
  /** Address whose share is used; of several, the share of the one whose turn comes first. */
  address: string | Addresses
  /** Stops waiting, and work for which nobody else waits. */
  signal?: AbortSignal | undefined
}

/** Thrown when a caller gets no slot: too many callers wait, or it waited too long. */
export class QueueFull extends Unavailable {
  override readonly name = 'QueueFull'
}

/** In one of so many admissions clients take turns, however many seconds they have held slots. */
const TURN = 4
const TOO_MANY = 'too many callers are waiting for a slot'

/** Number of clients for which one caller waits. */
interface Entries {
  waiting: number
}

interface Waiter {
  isLong: boolean
  entries: Entries
  admit(): void
  refuse(reason: Error): void
}

/** Counts the callers that hold a slot. */
class Slots {
  taken = 0
  readonly #limit: number
  readonly #limitPerClient: number
  readonly #held = new Map<string, number>()

  constructor({ slots, slotsPerClient }: { slots: number; slotsPerClient: number }) {
    this.#limit = slots
    this.#limitPerClient = slotsPerClient
  }

  get isFull(): boolean {
    return this.taken >= this.#limit
  }

  /** @param giver a client that would give one up */
  hasOneFor(client: string, giver?: string): boolean {
    const isFree = this.taken - (giver === undefined ? 0 : 1) < this.#limit
    return isFree && this.shareLeft(client) + (giver === client ? 1 : 0) > 0
  }

  /** Returns how many more a client may hold. */
  shareLeft(client: string): number {
    return this.#limitPerClient - (this.#held.get(client) ?? 0)
  }

  /**
   * Returns how many of the slots that a client wants it could have.
   *
   * @param giver a client that would give up as many as help
   */
  usableBy(client: string, wanted: number, giver?: string): number {
    if (!this.hasOneFor(client, giver)) return 0
    return client === giver ? wanted : Math.min(wanted, this.shareLeft(client))
  }

  take(client: string): void {
    this.taken++
    this.#held.set(client, (this.#held.get(client) ?? 0) + 1)
  }

  release(client: string): void {
    const heldSlots = (this.#held.get(client) ?? 0) - 1
    this.taken--
    if (heldSlots > 0) this.#held.set(client, heldSlots)
    else this.#held.delete(client)
  }
}

/**
 * Shares a fixed number of slots between clients, so that no client can keep the others out.
 *
 * Callers of one client are admitted in order of arrival, except that others pass a long one for
 * which there is no slot. Of the clients that wait, the one that has held slots for the fewest
 * seconds lately is next (`SlotTime`), and those that are equal take turns. In one of four admissions
 * seconds do not count, so that a client that holds a slot all the time has its turns too. One that
 * already holds `slotsPerClient` is skipped. When the queue is full, a new caller replaces the last
 * caller of the client with the most waiting callers, unless its own client has as many. So no client
 * can fill the queue and block the others.
 *
 * ```
 *         slots are left and own share is not used up
 *   enter ─────────────────────────────────────────────▶ admitted ── release ──▶ gone
 *     │                                                     ▲
 *     │ otherwise, while the queue has space                │ its turn
 *     ├────────────────────────────────────────▶ waiting ───┘
 *     │                                             │ replaced, timeout, or the signal aborts
 *     └── queue full ─────────▶ refused ◀───────────┘
 * ```
 *
 * Invariant: a caller waits only while all slots are taken or its client holds its whole share, or,
 * if it is long, while that is so for long callers.
 */
export class FairQueue {
  readonly #limits: { waiting: number; waitingPerClient: number; timeout: number; oncePerTurn: boolean }
  readonly #slots: Slots
  /** Of the slots, those of long callers. */
  readonly #long: Slots
  readonly #time = new SlotTime()
  /** By client; the first of equals is next. Never holds an empty queue. */
  readonly #queues = new Map<string, Set<Waiter>>()
  #waiting = 0
  /** Waiters that were admitted. */
  #admissions = 0

  constructor(limits: FairQueueLimits) {
    const { waiting = 1_000, waitingPerClient = 250, timeout = 10_000, oncePerTurn = false } = limits
    this.#limits = { waiting, waitingPerClient, timeout, oncePerTurn }
    this.#slots = new Slots(limits)
    this.#long = new Slots(limits.long ?? limits)
  }

  /** Number of callers that hold a slot. */
  get taken(): number {
    return this.#slots.taken
  }

  /** Number of callers that wait for a slot. */
  get waiting(): number {
    return this.#waiting
  }

  /**
   * Waits for a slot.
   *
   * @param client callers with the same key share one client's slots
   * @param isLong see `FairQueueLimits.long`
   * @param timeout longest wait in milliseconds, instead of that of all
   * @param entries those of a caller that waits for other clients too
   * @returns a function that releases the slot; later calls have no effect
   * @throws QueueFull, or the signal's reason
   */
  async enter(
    client: string,
    signal?: AbortSignal,
    isLong = false,
    timeout = this.#limits.timeout,
    entries: Entries = { waiting: 0 },
  ): Promise<() => void> {
    signal?.throwIfAborted()
    if (!this.#hasSlotFor(client, isLong)) await this.#wait(client, entries, signal, isLong, timeout)
    else this.#take(client, isLong)
    let isHeld = true
    return () => {
      if (isHeld && this.#limits.oncePerTurn) setImmediate(() => this.#release(client, isLong))
      else if (isHeld) this.#release(client, isLong)
      isHeld = false
    }
  }

  /** Runs `work` in a slot and releases the slot when it has ended. See `enter`. */
  async run<T>({ address, signal }: QueueClient, work: () => T | Promise<T>): Promise<T> {
    const release = await (typeof address === 'string'
      ? this.enter(address, signal)
      : this.#enterAny(address, signal))
    try {
      return await work()
    } finally {
      release()
    }
  }

  /**
   * Returns how many of the callers that wait could have a slot if a client gave up slots.
   *
   * @param isLong whether long callers of the client would give them up
   */
  waitingFor(giver: string, isLong = false): number {
    const longGiver = isLong ? giver : undefined
    let count = 0
    for (const [client, queue] of this.#queues) {
      const long = [...queue].filter((waiter) => waiter.isLong).length
      const able = queue.size - long + this.#long.usableBy(client, long, longGiver)
      count += this.#slots.usableBy(client, able, giver)
    }
    return count
  }

  /** Refuses all waiting callers of the client. Callers that hold a slot keep it. */
  dismiss(client: string, reason: Error): void {
    for (const waiter of [...(this.#queues.get(client) ?? [])]) waiter.refuse(reason)
  }

  /**
   * Waits for a slot of any of the clients, each of which waits for its turn. When one is admitted, the
   * others leave the queue. Throws QueueFull when all of them are refused, or at the timeout, which
   * clients that come later do not extend.
   */
  async #enterAny(clients: Addresses, signal: AbortSignal | undefined): Promise<() => void> {
    signal?.throwIfAborted()
    for (const client of clients) if (this.#hasSlotFor(client, false)) return this.enter(client, signal)

    const deadline = performance.now() + this.#limits.timeout
    const { promise: admitted, resolve, reject } = Promise.withResolvers<() => void>()
    const entries: Entries = { waiting: 0 }
    let pending = 0
    let isOver = false
    let refusal: unknown
    const leave = clients.watch((client) => {
      pending++
      const gone = new AbortController()
      const either = signal ? AbortSignal.any([gone.signal, signal]) : gone.signal
      const timeout = Math.max(1, deadline - performance.now())
      this.enter(client, either, false, timeout, entries).then(
        (release) => {
          if (isOver) release()
          isOver = true
          resolve(release)
        },
        (reason: unknown) => {
          if (!gone.signal.aborted) refusal = reason
          if (--pending > 0) return
          isOver = true
          reject(signal?.aborted ? signal.reason : refusal)
        },
      )
      return () => gone.abort()
    })
    return admitted.finally(leave)
  }

  #hasSlotFor(client: string, isLong: boolean): boolean {
    return this.#slots.hasOneFor(client) && (!isLong || this.#long.hasOneFor(client))
  }

  #take(client: string, isLong: boolean): void {
    this.#slots.take(client)
    this.#time.take(client)
    if (isLong) this.#long.take(client)
  }

  #release(client: string, isLong: boolean): void {
    this.#slots.release(client)
    this.#time.release(client)
    if (isLong) this.#long.release(client)
    // The share of a long caller may be of use to one caller, and its long slot to another.
    while (this.#admitNext()) {}
  }

  #wait(
    client: string,
    entries: Entries,
    signal: AbortSignal | undefined,
    isLong: boolean,
    timeout: number,
  ): Promise<void> {
    const { waiting, waitingPerClient } = this.#limits
    const queue = this.#queues.get(client) ?? new Set<Waiter>()
    const isCounted = entries.waiting > 0 || this.#waiting < waiting
    if (queue.size >= waitingPerClient || !(isCounted || this.#makeSpace(queue.size + 1)))
      return Promise.reject(new QueueFull(TOO_MANY))

    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        if (--entries.waiting === 0) this.#waiting--
        queue.delete(waiter)
        if (queue.size === 0) this.#queues.delete(client)
      }
      const waiter: Waiter = {
        isLong,
        entries,
        admit: () => {
          leave()
          resolve()
        },
        refuse: (reason) => {
          leave()
          reject(reason)
        },
      }

      const abort = () => waiter.refuse(signal?.reason)
      const timer = setTimeout(() => waiter.refuse(new QueueFull('no slot became free in time')), timeout)

      signal?.addEventListener('abort', abort, { once: true })
      queue.add(waiter)
      this.#queues.set(client, queue)
      if (entries.waiting++ === 0) this.#waiting++
    })
  }

  /**
   * Refuses the last caller that waits for one client alone, of the client with the most waiting callers
   * that has such a one, if it has more than `count`. Another one would keep its space.
   */
  #makeSpace(count: number): boolean {
    let most = count
    let last: Waiter | undefined
    for (const queue of this.#queues.values()) {
      if (queue.size <= most) continue
      const alone = [...queue].findLast(({ entries }) => entries.waiting === 1)
      if (!alone) continue
      most = queue.size
      last = alone
    }
    last?.refuse(new QueueFull(TOO_MANY))
    return last !== undefined
  }

  /** Admits the caller that is next. Returns false if none can have a slot. */
  #admitNext(): boolean {
    if (this.#slots.isFull || this.#waiting === 0) return false
    let next: { client: string; waiter: Waiter } | undefined
    let least = Number.POSITIVE_INFINITY
    const isTurn = (this.#admissions + 1) % TURN === 0
    for (const [client, queue] of this.#queues) {
      const seconds = isTurn ? 0 : this.#time.secondsOf(client)
      if (seconds >= least) continue
      const waiter = [...queue].find(({ isLong }) => this.#hasSlotFor(client, isLong))
      if (waiter === undefined) continue
      next = { client, waiter }
      least = seconds
      if (seconds === 0) break
    }
    if (next === undefined) return false
    this.#admissions++
    const { client, waiter } = next
    this.#take(client, waiter.isLong)
    waiter.admit()
    // Move the client behind the others: it has had its turn.
    const queue = this.#queues.get(client)
    if (queue !== undefined) {
      this.#queues.delete(client)
      this.#queues.set(client, queue)
    }
    return true
  }
}
