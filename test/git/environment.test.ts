import { execFileSync, spawnSync } from 'node:child_process'
import { chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FIXED_SETTINGS, gitEnvironment } from '../../src/git/environment.ts'
import { createSample, temporaryFolder } from './sample-repository.ts'

t.test('nothing but PATH is inherited', async (t) => {
  process.env.GIT_DIR = '/elsewhere'
  process.env.SECRET = 'secret'
  t.teardown(() => {
    delete process.env.GIT_DIR
    delete process.env.SECRET
  })
  const environment = gitEnvironment()
  t.notOk('GIT_DIR' in environment)
  t.notOk('SECRET' in environment)
  t.equal(environment.PATH, process.env.PATH)
})

t.test('git reads no configuration but the repository’s and the fixed settings', async (t) => {
  const { path } = await createSample(t)
  const list = execFileSync('git', ['--git-dir', path, 'config', '--list', '--show-scope'], {
    encoding: 'utf8',
    env: gitEnvironment(),
  })
  const others = list.split('\n').filter((line) => line !== '' && !line.startsWith('local'))
  t.same(
    others,
    Object.entries(FIXED_SETTINGS).map(([key, value]) => `command\t${key.toLowerCase()}=${value}`),
  )
})

t.test('settings of one process are beside the fixed ones, or instead of these', async (t) => {
  const own = { 'core.bigFileThreshold': '3m', 'receive.autogc': 'false' }
  const options = { cwd: temporaryFolder(t), encoding: 'utf8', env: gitEnvironment(own) } as const
  for (const [key, value] of Object.entries({ ...FIXED_SETTINGS, ...own }))
    t.equal(execFileSync('git', ['config', '--get', key], options), `${value}\n`, key)
})

t.test('a repository cannot turn replacement refs on', async (t) => {
  const sample = await createSample(t)
  const [older, newer] = [sample.commit('older'), sample.commit('newer')]
  sample.git('replace', newer, older)
  sample.git('config', 'core.useReplaceRefs', 'true')
  const show = ['--git-dir', sample.path, 'show', '--no-patch', '--format=%s', newer]
  t.equal(execFileSync('git', show, { encoding: 'utf8', env: gitEnvironment() }), 'newer\n')
})

t.test('the refs of an alternate are not listed', async (t) => {
  const base = await createSample(t)
  const sample = await createSample(t)
  const kept = base.commit('kept')
  base.git('update-ref', 'refs/heads/main', kept)
  writeFileSync(join(sample.path, 'objects/info/alternates'), `${join(base.path, 'objects')}\n`)
  const advertise = (env: Record<string, string>) => {
    const { stdout, stderr } = spawnSync('git', ['receive-pack', '--advertise-refs', sample.path], {
      encoding: 'utf8',
      env,
    })
    return stdout + stderr
  }
  const environment = gitEnvironment()
  t.match(advertise({ ...environment, GIT_CONFIG_COUNT: '1' }), `${kept} .have`, 'they would be')
  t.notMatch(advertise(environment), /\.have|error|warning/)
})

t.test('a repository of another owner can be used', async (t) => {
  const { path } = await createSample(t)
  if (process.getuid?.() === 0) chownSync(path, 12345, 12345)
  const env = gitEnvironment()
  t.equal(execFileSync('git', ['rev-parse', '--git-dir'], { cwd: path, encoding: 'utf8', env }), '.\n')
})

t.test('no hook of the repository runs', async (t) => {
  const sample = await createSample(t)
  const hooks = temporaryFolder(t)
  sample.git('config', 'core.hooksPath', hooks)
  writeFileSync(join(hooks, 'reference-transaction'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
  const commit = sample.commit()
  const update = (env: Record<string, string>) =>
    execFileSync('git', ['--git-dir', sample.path, 'update-ref', 'refs/heads/main', commit], {
      env,
      stdio: 'pipe',
    })
  const environment = gitEnvironment()
  t.throws(
    () => update({ ...environment, GIT_CONFIG_COUNT: '1' }),
    /hook/,
    'it would without the fixed value',
  )
  update(environment)
  t.equal(sample.git('rev-parse', 'main'), commit)
})
