import { channel } from 'node:diagnostics_channel'
import type { Test } from 'tap'

/**
 * Returns numbers of turns of the event loop: those in which the diagnostics channel published, one
 * for each message.
 */
export function turnsOf(t: Test, name: string): number[] {
  const turns: number[] = []
  let turn = 0
  const count = () => {
    turn++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  const note = () => turns.push(turn)
  const source = channel(name)
  source.subscribe(note)
  t.teardown(() => {
    source.unsubscribe(note)
    clearImmediate(counting)
  })
  return turns
}
