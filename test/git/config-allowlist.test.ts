import { execFileSync } from 'node:child_process'
import t from 'tap'
import { isAllowedKey } from '../../src/git/config-allowlist.ts'
import { otherKeys, programKeys, suggestsProgram } from './program-keys.ts'

/** Documented keys that can run a program or open a file in a fetch or push, and that no setting of a call overrides. */
const refused = [
  'gc.recentObjectsHook',
  'gc.repackFilter',
  'gc.repackFilterTo',
  'hook.<event>.enabled',
  'hook.<event>.jobs',
  'hook.<friendly-name>.command',
  'hook.<friendly-name>.enabled',
  'hook.<friendly-name>.event',
  'hook.<friendly-name>.parallel',
  'hook.jobs',
  'receive.fsck.skipList',
  'uploadpack.packObjectsHook',
]

/** All keys of the installed git, spelled as in its documentation. */
const documented = execFileSync('git', ['help', '--config'], { encoding: 'utf8' })
  .split('\n')
  .filter((line) => /^\w+(\.\S+)+$/.test(line))

/** Returns a key as `git config --list` prints it, with a value for each placeholder. */
function planted(key: string): string {
  const filled = key.replaceAll(/<[^>]*>|\*/g, 'x')
  const [first, last] = [filled.indexOf('.'), filled.lastIndexOf('.')]
  return filled.slice(0, first).toLowerCase() + filled.slice(first, last) + filled.slice(last).toLowerCase()
}

t.test('the allowlist covers every key that git documents', async (t) => {
  t.ok(documented.length > 500, 'git lists its keys')
  // Includes, patterns for several keys, and keys that git reads only from the configuration of a machine or user.
  const special = /^include(If)?\.|^(extensions|feature)\.\*$|^trace2\./
  const unknown = documented.filter(
    (key) => !special.test(key) && !refused.includes(key) && !isAllowedKey(planted(key)),
  )
  t.same(unknown, [], 'in none of the lists of src/git/config-allowlist.ts')
  for (const key of refused) t.notOk(isAllowedKey(planted(key)), key)
})

t.test('every key whose name suggests a program is classified', async (t) => {
  const known = new Set([...Object.keys(programKeys), ...otherKeys].map((key) => key.toLowerCase()))
  const unknown = documented.filter((key) => suggestsProgram.test(key) && !known.has(key.toLowerCase()))
  t.same(unknown, [], 'in none of the lists of test/git/program-keys.ts')
})

t.test('sections, subsections and names are matched', async (t) => {
  const verdicts: [key: string, allowed: boolean][] = [
    ['core.bare', true],
    ['core.unknown', false],
    ['core.x.bare', false],
    ['core.x.y.hookspath', false],
    ['branch.a.b.c.merge', true],
    ['remote.origin.lfsurl', true],
    ['lfs.https://example.org/x.git/info/lfs.access', true],
    ['filter.lfs.process', true],
    ['gc.reflogexpire', true],
    ['gc.refs/remotes/*.reflogexpire', true],
    ['gc.x.recentobjectshook', false],
    ['receive.fsck.missingemail', true],
    ['receive.fsck.skiplist', false],
    ['receive.fsck.a.skiplist', false],
    ['receive.x.missingemail', false],
    ['uploadpackfilter.tree.maxdepth', true],
    ['brand-new.thing', false],
    ['brand-new.core.bare', false],
    ['hooks.allowunannotated', true],
    ['hook.x.event', false],
    ['trace2.eventtarget', false],
  ]
  for (const [key, allowed] of verdicts) t.equal(isAllowedKey(key), allowed, key)
})
