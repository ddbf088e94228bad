import t from 'tap'
import { showProgress } from '../../src/cli/parts/progress.ts'

t.test('a terminal shows a bar for each label, on a line of its own', (t) => {
  let text = ''
  const write = (part: string) => {
    text += part
  }
  const progress = showProgress({ isTTY: true, write })
  progress('backup users', 0, 0)
  progress('backup statuses', 500, 2_000)
  progress('backup statuses', 1_000, 2_000)
  progress('repositories', 1, 3)
  const lines = text.split('\n').map((line) => line.split('\r\x1b[2K').at(-1))
  t.same(lines, [
    `backup users [${'#'.repeat(30)}] 100 % 0 of 0`,
    `backup statuses [${'#'.repeat(15)}${'.'.repeat(15)}] 50 % 1,000 of 2,000`,
    `repositories [${'#'.repeat(10)}${'.'.repeat(20)}] 33 % 1 of 3`,
  ])
  text = ''
  showProgress({ isTTY: false, write })('backup users', 1, 1)
  t.equal(text, '', 'and cron nothing')
  t.end()
})
