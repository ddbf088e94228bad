import type { FastifyRequest } from 'fastify'
import { createAdministeredFinder } from '../../finding/find-administered.ts'
import type { RepositoryRoute } from '../../finding/find-repository.ts'
import { invitation, MAY, readPermission } from '../../forms/permission-forms.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { sessionOf, signInPath, userOf } from '../../session/session-auth.ts'
import { settingsPath } from '../../text/repository-paths.ts'
import { accessView } from './access-view.ts'

/** Milliseconds within which tokens were used that are shown: 30 days. */
const USED_WITHIN = 30 * 86_400_000

/** Registers `/{owner}/{repo}/settings/access`: who has access to a repository, and why. */
export async function accessPage(pages: Pages, context: PageContext): Promise<void> {
  const { store, findUser, pageQueue } = context

  pages.form('/:owner/:repo/settings/access', {
    find: createAdministeredFinder(pages, context),
    initial: () => undefined,
    refused: (problem) => problem,

    async send(request: FastifyRequest<RepositoryRoute>, reply, repository, error: string | undefined) {
      const { owner, name } = repository
      const entries = await store.collaborators.list(repository)
      const isMember = Boolean((await store.groups.find(owner, userOf(request).id))?.permission)
      const usedTokens = await pageQueue.render(request, () =>
        store.usedTokens(repository.id, Date.now() - USED_WITHIN),
      )
      const form = request.form ?? new URLSearchParams()
      const link = `${request.client.origin()}${signInPath(`/${owner}/${name}`)}`
      const content = accessView({
        session: sessionOf(request),
        repository,
        entries,
        isMember,
        usedTokens,
        form,
        error,
        invitation: invitation(link, context.oidc !== null),
      })
      return sendPage(reply, { title: `Access · ${owner}/${name}` }, content)
    },

    async submit({ request, form, subject: repository, transact }) {
      const { owner, name } = repository
      const { id } = userOf(request)
      const { user, permission, expected } = await readPermission(form, findUser, id)
      await transact((change) => store.collaborators.set(change, repository, user.id, permission, expected))
      const { permission: own } = (await store.listing.find(id, owner, name)) ?? { permission: null }
      const is = permission === null ? 'was removed from' : MAY[permission]
      return {
        path: own === 'admin' ? settingsPath(repository, '/access') : '/',
        text: `${user.name} ${is} ${owner}/${name}${permission === null ? '' : ' now'}.`,
      }
    },
  })
}
