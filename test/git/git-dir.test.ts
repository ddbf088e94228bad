import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t, { type Test } from 'tap'
import { gitDirOf } from '../../src/git/git-dir.ts'
import { createSample, git, replaceGit, temporaryFolder } from './sample-repository.ts'

const BAD = '[hook "x"]\n\tcommand = program\n'
const refused = (file: string) => ({
  name: 'RepositoryUnavailable',
  message: new RegExp(`"hook\\.x\\.command" in .*${file}`),
})

t.test('a checkout with Git LFS, remotes, branches, husky and the like is accepted', async (t) => {
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
  await gitDirOf({ path })
  t.ok(git(join(folder, 'checkout'), ['config', '--list']).includes('gitflow.branch.master=main'))
})

t.test('a bare repository of a hosting service is accepted', async (t) => {
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
  await gitDirOf({ path })
})

t.test('repositories that the server created are not checked', async (t) => {
  const { path } = await createSample(t)
  appendFileSync(join(path, 'config'), BAD)
  t.equal(await gitDirOf({ path, managed: true }), path)
  await t.rejects(gitDirOf({ path }), refused('config'))
})

t.test('a refused key is found in every file that git reads', async (t) => {
  const here = '[include]\n\tpath = x\n'
  const worktree = '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n'
  const rows: [what: string, files: Record<string, string>, at: string][] = [
    ['in the configuration', { config: BAD }, 'config'],
    [
      'in the configuration of the work tree',
      { config: worktree, 'config.worktree': BAD },
      'config.worktree',
    ],
    ['in an included file', { config: here, x: BAD }, 'x'],
    [
      'in a file that an included file includes',
      { config: here, x: '[include] path = "y z"', 'y z': BAD },
      'y z',
    ],
    ['under a condition', { config: '[includeIf "onbranch:main"] path = ./x', x: BAD }, 'x'],
    ['with odd spelling', { config: '[HOOK "x"] Command = program\n' }, 'config'],
    ['without a value', { config: '[hook "x"] command\n' }, 'config'],
    ['over two lines', { config: '[hook "x"]\n\tcommand = pro\\\ngram\n' }, 'config'],
  ]
  for (const [what, files, at] of rows) {
    const { path } = await createSample(t)
    for (const [name, text] of Object.entries(files)) appendFileSync(join(path, name), text)
    await t.rejects(gitDirOf({ path }), refused(at), what)
  }
  const { path } = await createSample(t)
  const elsewhere = join(temporaryFolder(t), 'absolute')
  writeFileSync(elsewhere, BAD)
  git(path, ['config', 'include.path', elsewhere])
  await t.rejects(gitDirOf({ path }), refused('absolute'))
})

t.test('files that git does not read are not checked', async (t) => {
  const { path } = await createSample(t)
  for (const name of ['config.worktree', 'x']) writeFileSync(join(path, name), BAD)
  appendFileSync(join(path, 'config'), '[includeIf "onbranch:other"]\n\tpath = x\n')
  t.notMatch(settingsOf(await gitDirOf({ path })), 'hook')
  writeFileSync(join(path, 'HEAD'), 'ref: refs/heads/other\n')
  await t.rejects(gitDirOf({ path }), refused('x'), 'checked when the condition becomes true')
})

t.test('the error names up to five keys and no values', async (t) => {
  const { path } = await createSample(t)
  for (let index = 0; index < 7; index += 1) {
    appendFileSync(join(path, 'config'), `[hook "secret-${index}\\"\u001b"]\n\tcommand = secret-value\n`)
  }
  const message = await gitDirOf({ path }).catch(({ message }: Error) => message)
  t.match(message, /secret-0\\"\\u001b\.command" in .*secret-4.* and 2 more: .*git config --file/)
  for (const secret of ['secret-value', 'secret-5', '\u001b']) t.notOk(message.includes(secret))
})

t.test('a configuration that git cannot read is refused at once', async (t) => {
  const rows: [what: string, text: string, message: RegExp][] = [
    ['a broken line', '[core\n', /bad config line/],
    ['a missing home folder', '[include]\n\tpath = ~missing-user/x\n', /bad config line|expand/],
    ['no path', '[include]\n\tpath\n', /bad config line|missing value/],
    ['a device', '[include]\n\tpath = /dev/zero\n', /bad config line/],
    ['a recursive include', '[include]\n\tpath = ./config\n', /include depth/],
    ['a future version', '[core]\n\trepositoryformatversion = 99\n', /does not accept its configuration/],
  ]
  for (const [what, text, message] of rows) {
    const { path } = await createSample(t)
    appendFileSync(join(path, 'config'), text)
    await t.rejects(gitDirOf({ path }), { name: 'RepositoryUnavailable', message }, what)
  }
  for (const name of ['config', 'config.worktree', 'HEAD']) {
    const { path } = await createSample(t)
    rmSync(join(path, name), { force: true })
    execFileSync('mkfifo', [join(path, name)])
    await t.rejects(gitDirOf({ path }), { message: /is not a regular file/ }, `${name} is a pipe`)
  }
  const { path } = await createSample(t)
  for (let index = 0; index < 100; index += 1)
    appendFileSync(join(path, 'config'), `[include]\n\tpath = x${index}\n`)
  await t.rejects(gitDirOf({ path }), { message: /over 100 files/ })
})

t.test('a view has the same settings as the repository', async (t) => {
  const { path } = await createSample(t)
  const values = ['', ' a ', '#;"\\', 'a\tb\nc', '\b', '\r', 'a\r\n', 'ä', '\ufffd', '[x]\n[y]', '\\n', '"']
  for (const value of values) {
    git(path, ['config', '--add', `alias.${value.replaceAll('\n', '')}x.A-b1`, value])
    git(path, ['config', '--add', 'alias.plain', value])
  }
  appendFileSync(
    join(path, 'config'),
    Buffer.from('[user "\xff"]\n\tname = "\xfe\x01"\n\tempty =\n\tnone\n', 'latin1'),
  )
  appendFileSync(join(path, 'config'), '[user.DEPRECATED]\n\tname = x\n[include]\n\tpath = more\n')
  writeFileSync(join(path, 'more'), '[branch "a.b.c"]\n\tmerge = refs/heads/x\n')
  const gitDir = await gitDirOf({ path })
  const settings = settingsOf(path)
  t.equal(settingsOf(gitDir), settings.replace(/include\.path\nmore\0/, ''))
  t.ok(settings.includes('branch.a.b.c.merge'))
})

t.test('a work tree elsewhere or missing is ignored', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  sample.git('update-ref', 'refs/heads/main', commit)
  sample.git('config', 'core.bare', 'false')
  for (const folder of ['../../nowhere', '/nowhere', temporaryFolder(t)]) {
    appendFileSync(join(sample.path, 'config'), `[core]\n\tworktree = ${folder}\n`)
    t.equal(
      git('/', ['--git-dir', await gitDirOf({ path: sample.path }), 'log', '--format=%H']),
      commit,
      folder,
    )
  }
})

t.test('objects of an alternate with a relative path are found', async (t) => {
  const base = await createSample(t)
  const { path } = await createSample(t)
  const commit = base.commit()
  const objects = relative(join(path, 'objects'), join(base.path, 'objects'))
  writeFileSync(join(path, 'objects/info/alternates'), `${objects}\n`)
  t.equal(git(await gitDirOf({ path }), ['cat-file', '-t', commit]), 'commit')
})

t.test('changes of the configuration take effect only after they were checked', async (t) => {
  const sample = await createSample(t)
  const { path } = sample
  sample.git('update-ref', 'refs/heads/main', sample.commit())
  const gitDir = await gitDirOf({ path })
  const refs = () => execFileSync('git', ['upload-pack', '--advertise-refs', gitDir], { encoding: 'utf8' })
  const before = refs()
  t.match(before, /[0-9a-f] refs\/heads\/main/)
  sample.git('config', 'uploadpack.hideRefs', 'refs')
  writeFileSync(join(path, 'config.worktree'), BAD)
  writeFileSync(join(path, 'commondir'), temporaryFolder(t))
  t.equal(refs(), before)
  rmSync(join(path, 'commondir'))
  t.equal(await gitDirOf({ path }), gitDir)
  t.notMatch(refs(), /[0-9a-f] refs\/heads\/main/, 'the next call uses the new settings')
})

t.test('git reads and writes the repository through the view', async (t) => {
  const sample = await createSample(t)
  const { path } = sample
  const gitDir = await gitDirOf({ path })
  t.not(gitDir, path)
  t.equal(statSync(dirname(gitDir)).mode & 0o777, 0o700)
  const commit = git(gitDir, ['commit-tree', sample.tree(), '-m', 'message'])
  git(gitDir, ['update-ref', 'refs/heads/deep/er/topic', commit])
  git(gitDir, ['pack-refs', '--all'])
  t.equal(sample.git('rev-parse', 'deep/er/topic'), commit)
  t.ok(existsSync(join(path, 'packed-refs')))
  sample.git('symbolic-ref', 'HEAD', 'refs/heads/deep/er/topic')
  t.equal(git(await gitDirOf({ path }), ['rev-parse', 'HEAD']), commit)
  sample.git('update-ref', '--no-deref', 'HEAD', commit)
  t.equal(git(await gitDirOf({ path }), ['rev-parse', '--symbolic-full-name', 'HEAD']), 'HEAD', 'detached')
  rmSync(join(path, 'HEAD'))
  symlinkSync('refs/heads/old', join(path, 'HEAD'))
  t.equal(git(await gitDirOf({ path }), ['symbolic-ref', 'HEAD']), 'refs/heads/old', 'a symbolic link')
  rmSync(path, { recursive: true })
  await t.rejects(gitDirOf({ path }), { name: 'RepositoryUnavailable', message: /ENOENT/ })
})

t.test('a HEAD that is a symbolic link is followed when it changes', async (t) => {
  const { path } = await createSample(t)
  settle(t)
  for (const branch of ['one', 'two']) {
    rmSync(join(path, 'HEAD'))
    // Neither branch has a file: both are missing or packed.
    symlinkSync(`refs/heads/${branch}`, join(path, 'HEAD'))
    t.equal(git(await gitDirOf({ path }), ['symbolic-ref', 'HEAD']), `refs/heads/${branch}`)
  }
})

t.test('an included file that did not exist is checked when it is created', async (t) => {
  const { path } = await createSample(t)
  const file = join(temporaryFolder(t), 'later')
  git(path, ['config', 'include.path', file])
  settle(t)
  await gitDirOf({ path })
  writeFileSync(file, BAD)
  await t.rejects(gitDirOf({ path }), refused('later'))
  rmSync(file)
  await gitDirOf({ path })
})

t.test('a view is rebuilt only after a change', async (t) => {
  const { path } = await createSample(t)
  git(path, ['config', 'include.path', 'more'])
  writeFileSync(join(path, 'more'), '[core]\n\tbare = true\n')
  const count = countGit(t)
  settle(t)
  const [gitDir = ''] = await Promise.all(Array.from({ length: 20 }, () => gitDirOf({ path })))
  t.equal(count(), 1, 'concurrent calls share one view')
  for (let turn = 0; turn < 5; turn += 1) await gitDirOf({ path })
  t.equal(count(), 1)
  for (const name of ['more', 'HEAD', 'config']) {
    const before = count()
    appendFileSync(join(path, name), '\n')
    for (let turn = 0; turn < 5; turn += 1) await gitDirOf({ path })
    t.equal(count(), before + 1, name)
  }
  const before = count()
  rmSync(dirname(gitDir), { recursive: true })
  t.ok(
    existsSync(join(await gitDirOf({ path }), 'refs/heads')),
    'rebuilt after the folder was removed from /tmp',
  )
  t.equal(count(), before + 1)
  rmSync(join(await gitDirOf({ path }), 'objects'))
  t.ok(existsSync(join(await gitDirOf({ path }), 'objects')), 'rebuilt after a link was removed')
  t.equal(count(), before + 2)
})

t.test('a change that keeps size and modification time is detected', async (t) => {
  const { path } = await createSample(t)
  const file = join(path, 'config')
  const text = readFileSync(file, 'utf8')
  const moment = new Date(1_700_000_000_000)
  const write = (part: string) => {
    writeFileSync(file, text + part)
    utimesSync(file, moment, moment)
  }
  for (let turn = 0; turn < 20; turn += 1) {
    write(BAD.replace('hook', 'user'))
    await gitDirOf({ path })
    write(BAD)
    await t.rejects(gitDirOf({ path }), refused('config'))
  }
})

/** Returns the repository's own settings as git reads them. */
function settingsOf(path: string): string {
  const list = ['--git-dir', path, 'config', '--null', '--list', '--local', '--includes']
  const settings = execFileSync('git', list, {
    encoding: 'latin1',
    env: { ...process.env, HOME: '/dev/null' },
  })
  return settings
    .split('\0')
    .filter((setting) => !setting.startsWith('core.logallrefupdates'))
    .join('\0')
}

/** Sets the clock forward until the test ends, so that recent files count as old. */
function settle(t: Test): void {
  const { now } = Date
  const later = now() + 10_000
  Date.now = () => later
  t.teardown(() => {
    Date.now = now
  })
}

/** Returns a function that returns how often git was started since. */
function countGit(t: Test): () => number {
  const notes = join(temporaryFolder(t), 'notes')
  writeFileSync(notes, '')
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim()
  replaceGit(t, `echo >> '${notes}'\nexec '${real}' "$@"`)
  return () => readFileSync(notes, 'utf8').length
}
