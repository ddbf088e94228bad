import type { FastifyInstance, FastifyReply, FastifyRequest, RouteGenericInterface } from 'fastify'
import type { SignedIn } from '../../domain/actors.ts'
import { Refusal } from '../../domain/refusal.ts'
import { ServiceError } from '../../errors.ts'
import { checkPagePath } from '../../replies/unknown-paths.ts'
import type { Transact } from '../../store/audit/change.ts'
import { requireSignIn, type SessionAuth, sessionOf, signInPath } from '../session/session-auth.ts'
import { sentence } from '../text/text.ts'
import { formOf } from './query.ts'

/**
 * A page with a form:
 *
 * ```
 *   find ─▶ the form arrives ─▶ submit ──┬─ path ─────▶ 303, and a sentence on the next page
 *    │                                   ├─ shown ────▶ send, 200
 *    │                                   ├─ refused ──┬▶ send, 422
 *    │                                   └─ Refusal ──┘  of what `find` returns now
 *    └─ null: it has answered
 * ```
 *
 * `Subject` is what the form is about, `View` what the page shows besides.
 */
export interface FormPage<Route extends RouteGenericInterface, Subject, View> {
  /** Returns what the page shows before a form was sent; default: it has another path, or none. */
  initial?(request: FastifyRequest<Route>, subject: Subject): Promise<View> | View
  /** Path to which anonymous users return, who sign in before the form is received. */
  signIn?: string
  /** Checks, before the form is received, whether it may be sent. @throws ServiceError */
  admit?(request: FastifyRequest<Route>): Promise<void>
  /**
   * Returns what the form is about; null if the request is answered. Called before the form is
   * received, so that `submit` changes what it was sent for, and nothing that has its name by then.
   */
  find(request: FastifyRequest<Route>, reply: FastifyReply): Promise<Subject | null>
  /** Does what the form asks for. @throws Refusal */
  submit(sent: Sent<Route, Subject>): Promise<Outcome<View>>
  /** Returns what the page shows when a form is refused. @param problem why, as a sentence */
  refused(problem: string, form: URLSearchParams): View
  /** Sends the page with the form. */
  send(request: FastifyRequest<Route>, reply: FastifyReply, subject: Subject, view: View): Answer
}

type Answer = Promise<FastifyReply> | FastifyReply
type Send<Route extends RouteGenericInterface> = (
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Answer

/** A form as it was received. */
interface Sent<Route extends RouteGenericInterface, Subject> {
  request: FastifyRequest<Route>
  reply: FastifyReply
  form: URLSearchParams
  subject: Subject
  /** Changes something for who has sent it, unless the session has ended meanwhile. */
  transact: Transact<SignedIn>
}

/** What a form has led to: another page, with a sentence about what was done; or its own page. */
type Outcome<View> = { path: string; text?: string } | { shown: View } | { refused: View }

/** Marks the routes of pages, see `replies/unknown-paths.ts`. */
const PAGE = { page: true }
const REMEMBERED_PAGE = { ...PAGE, remembered: true }

/** Where pages are registered. A form is answered by a `FormPage`, and in no other way. */
export class Pages {
  readonly #app: FastifyInstance
  readonly #sessionAuth: SessionAuth

  constructor(app: FastifyInstance, sessionAuth: SessionAuth) {
    this.#app = app
    this.#sessionAuth = sessionAuth
  }

  /** Registers a page. */
  get<Route extends RouteGenericInterface>(path: string, send: Send<Route>, config = PAGE): void {
    this.#app.get(path, { config }, (request, reply) => send(ofRoute<Route>(request), reply))
  }

  /** Registers a page that calls `OpenPages.watch`. */
  getRemembered<Route extends RouteGenericInterface>(path: string, send: Send<Route>): void {
    this.get(path, send, REMEMBERED_PAGE)
  }

  /** Registers where a form is sent, and its page if that has the same path. */
  form<Route extends RouteGenericInterface, Subject, View>(
    path: string,
    page: FormPage<Route, Subject, View>,
  ): void {
    const { initial } = page
    if (initial)
      this.get<Route>(path, async (request, reply) => {
        const subject = await page.find(request, reply)
        if (subject === null) return reply
        return page.send(request, reply, subject, await initial(request, subject))
      })

    const subjects = new WeakMap<FastifyRequest, () => Subject>()

    const onRequest = async (received: FastifyRequest, reply: FastifyReply) => {
      const request = ofRoute<Route>(received)
      checkPagePath(path, received)
      await page.admit?.(request)
      // Who is not signed in has no right that could be lost.
      if (!sessionOf(received).user)
        return page.signIn === undefined ? undefined : reply.redirect(signInPath(page.signIn), 303)
      try {
        const subject = await page.find(request, reply)
        if (subject === null) return reply
        subjects.set(received, () => subject)
      } catch (error) {
        // A form of another site is refused first, whatever it is about.
        subjects.set(received, () => {
          throw error
        })
      }
    }

    this.#app.post(path, { config: PAGE, onRequest }, async (received, reply) => {
      const request = ofRoute<Route>(received)
      const found = subjects.get(received)
      const subject = found ? found() : await page.find(request, reply)
      if (subject === null) return reply
      const form = formOf(received)
      const transact = this.#sessionAuth.transact(received)
      try {
        const outcome = await page
          .submit({ request, reply, form, transact, subject })
          .catch((error: unknown) => {
            if (!(error instanceof Refusal)) throw error
            return { refused: page.refused(sentence(error.message), form) }
          })
        if ('path' in outcome) return this.#sessionAuth.redirect(received, reply, outcome.path, outcome.text)

        await this.#sessionAuth.check(received)
        const present = await page.find(request, reply)
        if (present === null) return reply
        if ('refused' in outcome) return page.send(request, reply.code(422), present, outcome.refused)
        return page.send(request, reply, present, outcome.shown)
      } catch (error) {
        // The page of the error is that of somebody who is not signed in.
        if (error instanceof ServiceError && error.code === 'session_ended')
          received.session = await this.#sessionAuth.identify(received, reply)
        throw error
      }
    })
  }

  /** Sends anonymous users of the pages to the sign-in page. @param path to return to */
  requireSignIn(path: string): void {
    this.#app.addHook('onRequest', requireSignIn(path))
  }

  /** Answers the errors of the pages. */
  onError<Route extends RouteGenericInterface>(
    send: (error: unknown, request: FastifyRequest<Route>, reply: FastifyReply) => Answer,
  ): void {
    this.#app.setErrorHandler((error, request, reply) => send(error, ofRoute<Route>(request), reply))
  }

  /** Logs an error of which a page shows only a part. */
  logError(request: FastifyRequest, error: ServiceError): void {
    this.#app.logError(request, error)
  }
}

/** Gives a request the type of its route: a path has the parameters that its page names. */
function ofRoute<Route extends RouteGenericInterface>(request: FastifyRequest): FastifyRequest<Route> {
  return request as FastifyRequest<Route>
}
