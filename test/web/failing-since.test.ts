import t from 'tap'
import { failingSince } from '../../src/domain/failing-since.ts'

t.test('a check is failing since the oldest failure after it last passed', async (t) => {
  const cellsOf = (states: string) =>
    Array.from(states, (letter) => {
      const state = ({ f: 'failure', e: 'error', s: 'success', p: 'pending' } as const)[letter]
      return state && { state, target_url: null, updated_at: 0 }
    })
  const expected: Record<string, [first: number, length: number, neverPassed: boolean]> = {
    fs: [0, 1, false],
    ffesf: [2, 3, false],
    'p-f-fs': [4, 2, false],
    ff: [1, 2, true],
    'f--': [0, 1, true],
  }
  for (const [states, [first, length, neverPassed]] of Object.entries(expected))
    t.same(failingSince(cellsOf(states)), { first, length, neverPassed }, states)
})
