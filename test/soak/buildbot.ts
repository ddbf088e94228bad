import { execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { createCommits } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Runs a real Buildbot master and worker with the recipe, and lets its stock GitHubStatusPush
 * report a build. Needs python3 with venv, and installs Buildbot from PyPI into a temporary folder.
 */
const folder = realpathSync(temporaryFolder(t))
t.setTimeout(900_000)

const server = await startServer(t)
const { path } = await server.createRepository('acme/rocket', { commits: 1 })
const token = await server.createToken('acme')

execFileSync('python3', ['-m', 'venv', 'venv'], { cwd: folder })
const bin = (name: string) => join(folder, 'venv/bin', name)
const packages = ['setuptools<81', 'buildbot==4.3.0', 'buildbot-worker==4.3.0', 'treq']
execFileSync(bin('pip'), ['install', '--quiet', '--disable-pip-version-check', ...packages], {
  cwd: folder,
  stdio: ['ignore', 'ignore', 'inherit'],
})

const master = join(folder, 'master')
mkdirSync(master)
cpSync(resolve('clients/recipes/buildbot.py'), join(master, 'recipe.py'))
writeFileSync(
  join(master, 'master.cfg'),
  `import os, sys
sys.path.insert(0, ${JSON.stringify(master)})
from recipe import commit_status
from buildbot.plugins import changes, schedulers, steps, util, worker
c = BuildmasterConfig = {"protocols": {"pb": {"port": "tcp:0:interface=127.0.0.1"}}, "buildbotNetUsageData": None}
c["workers"] = [worker.LocalWorker("local")]
c["services"] = [commit_status()]
c["builders"] = [util.BuilderConfig(name="test", workernames=["local"],
    factory=util.BuildFactory([steps.ShellCommand(command=["true"])]))]
c["schedulers"] = [schedulers.AnyBranchScheduler(name="all", builderNames=["test"], treeStableTimer=None)]
c["change_source"] = [changes.GitPoller(repourl="${server.url}/acme/rocket.git", branches=["main"],
    project="acme/rocket", pollInterval=1, pollAtLaunch=True)]
c["db"] = {"db_url": "sqlite:///state.sqlite"}
`,
)
const env = { PATH: process.env.PATH, COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
execFileSync(bin('buildbot'), ['create-master', '--relocatable', '.'], { cwd: master, env, stdio: 'ignore' })
const buildbot = spawn(bin('buildbot'), ['start', '--nodaemon', '.'], {
  cwd: master,
  env,
  stdio: ['ignore', 'inherit', 'inherit'],
})
t.teardown(() => buildbot.kill('SIGKILL'))

// Buildbot builds what is pushed after its first look.
await setTimeout(30_000)
const [sha = ''] = createCommits(path, 1)
const deadline = performance.now() + 60_000
let states: string[] = []
while (performance.now() < deadline && states[0] !== 'buildbot/test success') {
  await setTimeout(500)
  const { json } = await server.read('acme/rocket', sha)
  states = (json.statuses ?? []).map(({ context, state }) => `${context} ${state}`)
}
t.strictSame(states, ['buildbot/test success'], 'reported by the stock GitHubStatusPush')
