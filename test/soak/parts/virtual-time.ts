import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import type { Test } from 'tap'

/** A process of a model: it does nothing while it stands still, and nothing more once it was killed. */
export interface Host {
  /** Milliseconds since the epoch. */
  stalledUntil: number
  isKilled: boolean
}

/** A clock that goes on when nothing is left to do before its next timer. */
export interface VirtualTime {
  /** Milliseconds since the epoch. */
  now(): number
  /** Calls a task after so many milliseconds, later if its process stands still, and never if it was killed. */
  after(milliseconds: number, task: () => void, host?: Host): void
  /** Starts a process: its timers and clocks are virtual. */
  start(host: Host, program: () => Promise<void>): void
  /** Stops the clock until a call of the database has returned. */
  wait<T>(call: Promise<T>): Promise<T>
  /** Lets time pass until a condition is true, or for so many milliseconds. Then no timer is left. */
  pass(milliseconds: number, isOver: () => boolean): Promise<void>
}

interface Timer {
  at: number
  task: () => void
  host: Host | undefined
}

/** Replaces the clocks and timers of processes, and `Date.now` for all that runs here, until the test ends. */
export function startVirtualTime(t: Test): VirtualTime {
  const host = new AsyncLocalStorage<Host>()
  const timers = new Set<Timer>()
  const real = { setTimeout, clearTimeout }
  let time = Date.now()
  let calls = 0
  let failure: unknown

  function add(milliseconds: number, task: () => void, of?: Host): Timer {
    const timer = { at: time + Math.max(0, milliseconds), task, host: of }
    timers.add(timer)
    return timer
  }

  replace(t, Date, 'now', () => Math.floor(time))
  replace(t, Object.getPrototypeOf(performance), 'now', () => time)
  replace(t, globalThis, 'setTimeout', (task: () => void, milliseconds: number) => {
    const of = host.getStore()
    if (!of) return real.setTimeout(task, milliseconds)
    const timer = add(milliseconds, task, of)
    return Object.assign(timer, { unref: () => timer })
  })
  replace(t, globalThis, 'clearTimeout', (timer: Timer & NodeJS.Timeout) => {
    if (!timers.delete(timer)) real.clearTimeout(timer)
  })

  function fire({ task, host: of }: Timer): void {
    if (of?.isKilled) return
    if (of && of.stalledUntil > time) add(of.stalledUntil - time, task, of)
    else task()
  }

  async function settle(): Promise<void> {
    for (let quiet = 0; quiet < 2; ) {
      await setImmediate()
      quiet = calls > 0 ? 0 : quiet + 1
    }
    if (failure) throw failure
  }

  return {
    now: () => time,
    after: add,
    start(of, program) {
      host.run(of, program).catch((error: unknown) => {
        failure = error
      })
    },
    async wait(call) {
      calls++
      try {
        return await call
      } finally {
        calls--
      }
    },
    async pass(milliseconds, isOver) {
      const end = time + milliseconds
      await settle()
      while (!isOver()) {
        let next: Timer | undefined
        for (const timer of timers) if (!next || timer.at < next.at) next = timer
        if (!next || next.at > end) break
        timers.delete(next)
        time = Math.max(time, next.at)
        fire(next)
        await settle()
      }
      timers.clear()
    },
  }
}

/** Replaces a function until the test ends. The tests' own `capture` records where each call comes from. */
function replace(t: Test, object: object, name: string, value: unknown): void {
  const original = Object.getOwnPropertyDescriptor(object, name)
  if (!original) throw new Error(`${name} is missing`)
  Object.defineProperty(object, name, { ...original, value })
  t.teardown(() => Object.defineProperty(object, name, original))
}
