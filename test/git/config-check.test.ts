import { execFileSync } from 'node:child_process'
import { appendFileSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { checkConfig } from '../../src/git/config-check.ts'
import { createSample, git, replaceGit, temporaryFolder } from './sample-repository.ts'

const BAD = '[hook "x"]\n\tcommand = program\n'
const refused = (file: string) => ({
  name: 'RepositoryUnavailable',
  message: new RegExp(`"hook\\.x\\.command" in .*${file}`),
})

t.test('a checkout with Git LFS, remotes, branches, husky and the like', async (t) => {
  const folder = temporaryFolder(t)
  git(folder, ['init', '--quiet', 'checkout'])
  const path = join(folder, 'checkout/.git')
  appendFileSync(
    join(path, 'config'),
    `[user]
	name = A
	email = a@example.org
	signingkey = ~/.ssh/id.pub
[commit]
	gpgsign = true
[gpg]
	format = ssh
[gpg "ssh"]
	allowedSignersFile = ~/.ssh/allowed
[core]
	hooksPath = .husky
	fsmonitor = true
	untrackedCache = true
	sshCommand = ssh -i ~/.ssh/deploy
	editor = vim
[remote "origin"]
	url = https://example.org/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
	lfsurl = https://lfs.example.org
	gh-resolved = base
[branch "main"]
	remote = origin
	merge = refs/heads/main
	vscode-merge-base = origin/main
[filter "lfs"]
	clean = git-lfs clean -- %f
	smudge = git-lfs smudge -- %f
	process = git-lfs filter-process
	required = true
[lfs]
	repositoryformatversion = 0
[lfs "https://example.org/x.git/info/lfs"]
	access = basic
[diff "docx"]
	textconv = docx2txt
[merge "lock"]
	driver = merge-lock %A %O %B
[credential]
	helper = store
[alias]
	sync = !git fetch && git rebase
[submodule "lib"]
	active = true
	url = https://example.org/lib.git
[color]
	ui = always
[pull]
	rebase = true
[gc]
	auto = 0
[maintenance]
	auto = false
	strategy = incremental
[includeIf "gitdir:/work/"]
	path = ~/.gitconfig-work
[gitflow "branch"]
	master = main
`,
  )
  await checkConfig({ path })
  t.ok(git(join(folder, 'checkout'), ['config', '--list']).includes('gitflow.branch.master=main'))
})

t.test('a bare repository that a hosting service made', async (t) => {
  const { path } = await createSample(t, 'sha256')
  for (const [key, value] of [
    ['core.sharedRepository', 'group'],
    ['receive.denyNonFastForwards', 'true'],
    ['receive.fsck.missingSpaceBeforeDate', 'ignore'],
    ['receive.hideRefs', 'refs/internal'],
    ['uploadpack.allowFilter', 'true'],
    ['uploadpack.allowAnySHA1InWant', 'true'],
    ['repack.writeBitmaps', 'true'],
    ['pack.threads', '1'],
    ['http.receivepack', 'true'],
    ['gitweb.owner', 'A'],
    ['gitlab.fullpath', 'a/b'],
    ['hooks.mailinglist', 'a@example.org'],
  ] as const)
    git(path, ['config', key, value])
  await checkConfig({ path })
})

t.test('the server trusts what it created itself', async (t) => {
  const { path } = await createSample(t)
  appendFileSync(join(path, 'config'), BAD)
  await checkConfig({ path, managed: true })
  await t.rejects(checkConfig({ path }), refused('config'))
})

t.test('wherever the key is', async (t) => {
  const include = (...lines: string[]) => `${lines.join('\n\t')}\n`
  const rows: [what: string, files: Record<string, string>, at: string][] = [
    ['in the configuration', { config: BAD }, 'config'],
    ['in that of a work tree, switched on or not', { 'config.worktree': BAD }, 'config.worktree'],
    ['in a file that is included', { config: include('[include]', 'path = x'), x: BAD }, 'x'],
    [
      'in one that such a file includes',
      { config: include('[include]', 'path = ./x'), x: include('[include]', 'path = "y z"'), 'y z': BAD },
      'y z',
    ],
    [
      'under a condition that does not hold',
      { config: include('[includeIf "onbranch:a.b"]', 'path = x'), x: BAD },
      'x',
    ],
    [
      'under one that this git does not know',
      { config: include('[includeIf "brand-new:x"]', 'path = x'), x: BAD },
      'x',
    ],
    ['with odd spelling', { config: '[HOOK "x"] Command = program\n' }, 'config'],
    ['without a value', { config: '[hook "x"] command\n' }, 'config'],
    ['over two lines', { config: '[hook "x"]\n\tcommand = pro\\\ngram\n' }, 'config'],
  ]
  for (const [what, files, at] of rows) {
    const { path } = await createSample(t)
    for (const [name, text] of Object.entries(files)) appendFileSync(join(path, name), text)
    await t.rejects(checkConfig({ path }), refused(at), what)
  }
  const { path } = await createSample(t)
  const elsewhere = join(temporaryFolder(t), 'absolute')
  writeFileSync(elsewhere, BAD)
  git(path, ['config', 'include.path', elsewhere])
  await t.rejects(checkConfig({ path }), refused('absolute'))
})

t.test('all that is wrong is said, but for endless lists, and no value', async (t) => {
  const { path } = await createSample(t)
  for (let index = 0; index < 7; index += 1) {
    appendFileSync(join(path, 'config'), `[hook "secret-${index}\\"\u001b"]\n\tcommand = secret-value\n`)
  }
  const error = await checkConfig({ path }).then(
    () => t.fail('it was not refused'),
    (error) => error,
  )
  t.match(error.message, /secret-0\\"\\u001b\.command" in .*secret-4.* and 2 more: .*git config --file/)
  for (const secret of ['secret-value', 'secret-5', '\u001b']) t.notOk(error.message.includes(secret))
})

t.test('what git could not read is refused', async (t) => {
  const rows: [what: string, text: string, message: RegExp][] = [
    ['a broken line', '[core\n', /bad config line/],
    ['a home', '[include]\n\tpath = ~root/x\n', /not a plain path/],
    ["git's own folder", '[include]\n\tpath = %(prefix)/x\n', /not a plain path/],
    ['a mark to come', '[include]\n\tpath = :(optional)x\n', /not a plain path/],
    ['no path', '[include]\n\tpath\n', /not a plain path/],
    ['no text', '[include]\n\tpath = a\\\\\xff\n', /not a plain path/],
    ['a folder', '[include]\n\tpath = objects\n', /not a regular file/],
    ['a device', '[include]\n\tpath = /dev/zero\n', /not a regular file/],
    ['itself, again and again', '[include]\n\tpath = ./config\n', /over 100 files/],
  ]
  for (const [what, text, message] of rows) {
    const { path } = await createSample(t)
    appendFileSync(join(path, 'config'), Buffer.from(text, 'latin1'))
    await t.rejects(checkConfig({ path }), { name: 'RepositoryUnavailable', message }, what)
  }
  const { path } = await createSample(t)
  rmSync(join(path, 'config'))
  execFileSync('mkfifo', [join(path, 'config')])
  await t.rejects(checkConfig({ path }), { message: /not a regular file/ }, 'a pipe')
  rmSync(join(path, 'config'))
  await checkConfig({ path })
  writeFileSync(join(path, 'commondir'), temporaryFolder(t))
  await t.rejects(checkConfig({ path }), { message: /leads to another repository/ })
})

t.test('a file that is not there yet counts as soon as it is', async (t) => {
  const { path } = await createSample(t)
  const file = join(temporaryFolder(t), 'later')
  git(path, ['config', 'include.path', file])
  settle(t)
  await checkConfig({ path })
  writeFileSync(file, BAD)
  await t.rejects(checkConfig({ path }), refused('later'))
  rmSync(file)
  await checkConfig({ path })
  writeFileSync(join(path, 'config.worktree'), BAD)
  await t.rejects(checkConfig({ path }), refused('config.worktree'))
})

t.test('git is asked again only after a change', async (t) => {
  const { path } = await createSample(t)
  git(path, ['config', 'include.path', 'more'])
  writeFileSync(join(path, 'more'), '[core]\n\tbare = true\n')
  const notes = countGit(t)
  settle(t)
  await Promise.all(Array.from({ length: 20 }, () => checkConfig({ path })))
  t.equal(notes(), 2, 'each file once, however many ask')
  for (let turn = 0; turn < 5; turn += 1) await checkConfig({ path })
  t.equal(notes(), 2)
  writeFileSync(join(path, 'more'), BAD)
  await t.rejects(checkConfig({ path }), refused('more'))
  t.equal(notes(), 4)
  for (let turn = 0; turn < 5; turn += 1) await t.rejects(checkConfig({ path }), refused('more'))
  t.equal(notes(), 4, 'a refusal lasts as well')
})

t.test('a change that leaves size and times alone is noticed', async (t) => {
  const { path } = await createSample(t)
  const file = join(path, 'config')
  const harmless = BAD.replace('hook', 'user')
  const text = readFileSync(file, 'utf8')
  const moment = new Date(1_700_000_000_000)
  const write = (part: string) => {
    writeFileSync(file, text + part)
    utimesSync(file, moment, moment)
  }
  for (let turn = 0; turn < 20; turn += 1) {
    write(harmless)
    await checkConfig({ path })
    write(BAD)
    await t.rejects(checkConfig({ path }), refused('config'))
  }
})

/** Lets what was written lately, and is until the test ends, count as old. */
function settle(t: Test): void {
  const { now } = Date
  const later = now() + 10_000
  Date.now = () => later
  t.teardown(() => {
    Date.now = now
  })
}

/** Counts how often git is started from now on. */
function countGit(t: Test): () => number {
  const notes = join(temporaryFolder(t), 'notes')
  writeFileSync(notes, '')
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim()
  replaceGit(t, `echo >> '${notes}'\nexec '${real}' "$@"`)
  return () => readFileSync(notes, 'utf8').length
}
