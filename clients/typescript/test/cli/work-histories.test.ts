import t from 'tap'
import { runHistories } from '../../../../test/soak/parts/work-histories.ts'

t.setTimeout(120_000)

t.test('random histories of workers keep what is promised', async (t) => {
  const found = await runHistories(t, 1, 50)
  t.comment(JSON.stringify(found))
  t.ok(found.overlaps > 0 && found.refused > 50 && found.requests > 50)
})
