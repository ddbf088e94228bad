import t from 'tap'
import { followFirstBranch, setDefaultBranch } from '../../../src/git/history/default-branch.ts'
import { RepositoryUnavailable } from '../../../src/git/repository.ts'
import { replaceGit } from '../../helpers/git.ts'
import { createSample } from '../sample-repository.ts'

t.test('a chosen branch stays even if git cannot tell that it was chosen', async (t) => {
  const sample = await createSample(t)
  const { path } = sample
  sample.git('update-ref', 'refs/heads/other', sample.commit())
  const follow = () => followFirstBranch(path, () => true)
  await setDefaultBranch(path, 'later', true)
  await follow()
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/later')

  await t.test('because it fails', async (t) => {
    replaceGit(t, 'case "$*" in *"config --get"*) exit 128; esac; exec "$git" "$@"')
    await t.rejects(follow(), RepositoryUnavailable)
  })
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/later')
})

t.test('HEAD follows a branch if none was chosen', async (t) => {
  const sample = await createSample(t)
  sample.git('update-ref', 'refs/heads/other', sample.commit())
  await followFirstBranch(sample.path, () => true)
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/other')
})

t.test('HEAD stays where another push has moved it meanwhile', async (t) => {
  const sample = await createSample(t)
  for (const name of ['master', 'other']) sample.git('update-ref', `refs/heads/${name}`, sample.commit())
  let asked = 0
  await followFirstBranch(sample.path, () => {
    if (asked++ === 0) sample.git('symbolic-ref', 'HEAD', 'refs/heads/other')
    return true
  })
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/other')
})
