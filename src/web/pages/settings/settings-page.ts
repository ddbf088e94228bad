import type { FastifyRequest } from 'fastify'
import type { SignedIn } from '../../../domain/actors.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { isBranchName } from '../../../git/refs/read-refs.ts'
import { chooseDefaultBranch, followPushes } from '../../../repositories/default-branch.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { Transact } from '../../../store/audit/change.ts'
import { VISIBILITIES } from '../../../store/tables.ts'
import { insteadOf, Unavailable } from '../../../util/expected-errors.ts'
import { createAdministeredFinder } from '../../finding/find-administered.ts'
import { gitClient, type RepositoryRoute } from '../../finding/find-repository.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { settingsPath } from '../../text/repository-paths.ts'
import { type SettingsErrors, settingsView } from './settings-view.ts'

/**
 * Registers `/{owner}/{repo}/settings`: visibility, default branch and what moves it, name, owner and deletion of a
 * repository, for its admins.
 */
export async function settingsPage(pages: Pages, context: PageContext): Promise<void> {
  const { store, refs } = context

  pages.form('/:owner/:repo/settings', {
    find: createAdministeredFinder(pages, context),
    initial: () => ({}),
    refused: (problem, form) => ({ [form.get('change') ?? '']: problem }),
    submit: ({ form, subject, transact }) => apply(transact, subject, form),

    async send(request: FastifyRequest<RepositoryRoute>, reply, repository, errors: SettingsErrors) {
      const { name, owner } = repository
      // Without its files, a repository can still be renamed and deleted.
      const client = gitClient(request)
      const list = await refs.list(repository, client).catch(insteadOf(Unavailable, null))
      const follows =
        list && repository.managed
          ? await refs.followsDeletions(repository, client).catch(insteadOf(Unavailable, null))
          : null
      const owners = (await store.groups.administeredBy(userOf(request).id)).map(({ name }) => name)
      const content = settingsView({
        session: sessionOf(request),
        repository,
        branches: list?.branches.map(({ name }) => name) ?? null,
        defaultBranch: list?.defaultBranch ?? null,
        follows,
        owners,
        form: request.form ?? new URLSearchParams(),
        errors,
      })
      return sendPage(reply, { title: `Settings · ${owner}/${name}` }, content)
    },
  })

  /** Makes one change. @returns the page that comes next @throws Refusal */
  async function apply(
    transact: Transact<SignedIn>,
    repository: ReadableRepository,
    form: URLSearchParams,
  ): Promise<{ path: string; text: string }> {
    const change = form.get('change') ?? ''
    const expected = form.get('from') ?? undefined
    const { owner, name } = repository
    const fullName = `${owner}/${name}`
    const path = settingsPath(repository)
    const isOther = expected !== undefined && expected !== String(repository.id)
    if (isOther && (change === 'name' || change === 'delete'))
      throw new Refusal(`the name ${fullName} belongs to another repository by now. Nothing was changed`)

    switch (change) {
      case 'visibility': {
        const visibility = VISIBILITIES.find((value) => value === form.get('visibility'))
        if (!visibility) throw new Refusal('choose who can see it')
        await transact((change) => store.repositories.setVisibility(change, repository, visibility, expected))
        return { path, text: `${fullName} is ${visibility} now.` }
      }
      case 'branch': {
        const branch = form.get('branch') ?? ''
        if (!isBranchName(branch)) throw new Refusal('choose a branch')
        await chooseDefaultBranch(transact, store, repository, branch, expected)
        return { path, text: `${branch} is the default branch of ${fullName} now.` }
      }
      case 'follow': {
        const follows = form.get('follow') === 'yes'
        await followPushes(transact, store, repository, follows, expected)
        const text = `The default branch ${follows ? 'follows a push that deletes it now' : 'no longer follows a push that deletes it'}.`
        return { path, text }
      }
      case 'name': {
        const to = { owner: form.get('owner') ?? '', name: (form.get('name') ?? '').trim() }
        const { isReserved, ...now } = await transact((change) =>
          store.repositories.rename(change, repository, to),
        )
        const newName = `${now.owner}/${now.name}`
        const path = settingsPath(now)
        if (newName === fullName) return { path, text: `${fullName} has this name already.` }
        return {
          path,
          text: `${fullName} is ${newName} now.${isReserved ? ' The name before is reserved.' : ''}`,
        }
      }
      case 'delete': {
        if (form.get('confirm') !== fullName) throw new Refusal(`type ${fullName}`)
        // The server soon removes what is left, which may be millions of rows.
        await transact((change) => store.repositories.delete(change, repository))
        return { path: '/', text: `${fullName} was deleted.` }
      }
      default:
        throw new Refusal('choose what to change')
    }
  }
}
