// Written by `npm run generate` from openapi.yaml. Do not edit.

export interface paths {
    "/api/v1/repos/{owner}/{repo}/statuses/{sha}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report a status
         * @description Records the result of one check on one commit. A commit has at most one status per `context`: a second report
         *     for the same context replaces the first, keeps its `id` and `created_at`, and gets `201` as well. Any
         *     state may follow any other.
         *
         *     Reports can arrive late, twice or in another order than they were sent. A report with `run` says which run of the
         *     check it belongs to, and its `elapsed` when that run began: the server's clock minus `elapsed`. Such a report gets
         *     `409` and changes nothing if the stored status was reported
         *
         *     - by the same run and is a result, while this report is `pending`: it arrived too late;
         *     - by another run that began more than 5 seconds after this one: this run is superseded.
         *
         *     In all other cases it replaces the stored status. A report without `run` always does, and the status then belongs
         *     to no run. A run that is reported as begun at different times began at the earliest of them.
         *
         *     A report with `claim` lets one of several workers run a check: it is stored only where it takes the check from no
         *     other. That is so if
         *
         *     - the context has no status;
         *     - the stored status is of the same run: then it is decided as without `claim`, so a claim whose response was lost can
         *       be sent again;
         *     - both are `pending`, the stored one of another run, this run is not superseded, and the greater of the two `claim`
         *       has passed since the stored one was reported: what was reported without `claim` counts as 0 from the end of its
         *       second on;
         *     - both are `pending`, the stored one without `run`, which asks for another run: this run began after the second of
         *       that report, and is not the last one that claimed the context.
         *
         *     In all other cases it gets `409`, which changes nothing and says what is stored. So a result with `claim` is stored
         *     only over nothing or over its own run, and a worker that gets `409` no longer has the check. The `409` of a claim over
         *     a `pending` carries `Retry-After`: the seconds until the greater of both claims has passed, at least 1, and 1 without
         *     `run`. Claims last by the clock of the database; a stored time that is more than 5 seconds ahead of it counts as passed.
         *
         *     A worker takes a new, random `run` for each attempt, and sends `claim` with all of its reports, also with the result:
         *     without it, a result may replace the `pending` of another worker. It repeats its `pending` while the command runs, for
         *     example each third of the claim: each time the claim begins again, and one without `claim` ends it. Without a response,
         *     or with a `503`, it goes on and repeats the report: a claim that has ended keeps the check until another run takes
         *     it. At `409` it stops, and reports nothing more; after `Retry-After` a new run may claim. It gives up a check by a
         *     result, such as `error`. Only workers should report such a context, all with the same `claim`; others only ask for
         *     another run.
         *
         *     What remains: the server knows only the run whose report is stored, so a report that is delivered late can replace
         *     that of another run if these runs began within 5 seconds of each other, or if its delivery took longer than the
         *     time between them, which makes its run look younger than it is. So a `pending` with `claim` that is delivered late
         *     can take a request for another run that was made after its run began, if other runs have claimed the context since:
         *     the request is lost once the result of that run is stored.
         */
        post: operations["reportStatus"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the statuses of a commit
         * @description Returns all statuses of the commit, ordered by the code points of `context`, and the combined state computed
         *     from exactly these. A commit without statuses has the state `null`.
         *
         *     To poll cheaply, send the `ETag` of the last response as `If-None-Match`: while nothing changes the response
         *     is `304`.
         */
        get: operations["listStatuses"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Decide whether a commit has passed its required checks
         * @description Returns one verdict on the commit. Context patterns say which checks are required: those of `require`, and those
         *     of all rules that match `branch`.
         *
         *     1. `failure`: a required context is `failure` or `error`.
         *     2. `pending`: a required context is `pending`, or a pattern matches no reported context.
         *     3. `success`: otherwise.
         *
         *     Without any pattern all contexts count, and a commit without statuses is `pending`.
         *
         *     To wait for a change, ask every few seconds, with the `ETag` of the last response as `If-None-Match`: while nothing
         *     changes the response is `304`.
         */
        get: operations["getVerdict"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/repos/{owner}/{repo}/last-passed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find the last commit of a branch that passed its required checks
         * @description Returns the newest commit that the branch was at, and still contains, whose required checks have passed: its verdict,
         *     as of `getVerdict` with the same `branch` and `require`, is `success`. A deployment can take it without asking again.
         *
         *     1. Only commits that the branch itself was at are looked at: those that the server recorded with each push, and from
         *        each of these on its first parents (`git log --first-parent`), as long as they contain the recorded commit before
         *        it. Those that a forced push has removed are not, unless `after` is one. Where nothing is recorded, first parents
         *        alone count: below the push that created the branch; before version 0.5.0 of the server; beyond the last 1,000
         *        pushes to the branch, of which a request looks at 300; and below a merge of the branch into a topic of more than
         *        20,000 commits. What others than this server moved, or a push that named a symbolic ref to the branch, counts as
         *        one push. A commit of a merged branch may have passed without what the branch has had since.
         *     2. Checks must be required, by a rule that matches the branch or by `require`. Otherwise the response is `422`: the
         *        first report would make a commit pass.
         *     3. Today's rules count, for old commits too. A check that is required from now on has not reported on them, so
         *        none of them has passed until it does.
         *     4. A request looks at 300 commits at most. If it returns none of them and there are more, `commit` is null and `next`
         *        says where to go on, as `Link` does: that is not the same as no commit that passed.
         *     5. git has 3 seconds each time that it reads a history, which most requests do not need. Far down a long one, `after`
         *        may take more: the response is `503`, what was read is kept, and the same request goes on from there. Where the
         *        branch has merged hundreds of thousands of commits at once, it stays `503` until the operator of the server has had
         *        git write a commit graph.
         *
         *     To wait for a change, ask every few seconds, with the `ETag` of the last response as `If-None-Match`: while nothing
         *     changes the response is `304`.
         */
        get: operations["getLastPassed"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/repos/{owner}/{repo}/branches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List branches and what their newest commits have passed
         * @description Returns branches in the order of the code points of their names, each with its newest commit, the combined state of
         *     that commit, and the verdict on the checks that rules require.
         *
         *     A branch that is there during all requests is on exactly one page, whatever is pushed meanwhile. With `verdict`, a
         *     request looks at 300 branches at most, so a page may be short or empty and still have a next one: go on while there
         *     is one.
         *
         *     Branches without a rule have the verdict `null`, and no `verdict` matches them.
         */
        get: operations["listBranches"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/repos/{owner}/{repo}/awaiting": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List branches that wait for a check
         * @description Returns branches whose newest commit has no result of one context, in the order of the code points of their names: the
         *     context has not been reported on that commit, or is `pending`. Neither rules nor other contexts count, so the `ETag`
         *     stays the same while no branch moves and only these are reported. It also stays the same when a claim ends, or another
         *     run of what is `pending` is asked for: only a claim shows whether the check can be taken. Claim again after the
         *     `Retry-After` of a `409`, also while the response is `304`.
         *
         *     To wait for work, ask every few seconds, with the `ETag` of the last response as `If-None-Match`. A commit that several
         *     branches are at is listed for each of them.
         *
         *     A request looks at 300 branches at most, so a page may be short or empty and still have a next one: go on while there
         *     is one. A branch that is there and waits during all requests is on exactly one page, whatever is pushed meanwhile.
         */
        get: operations["listAwaiting"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * @description Name of an owner, a user or a repository: 1 to 100 ASCII letters, digits, `-`, `_`, `.`; not `.` or `..`, and
         *     not ending in `.git` or `.lock`.
         * @example acme
         */
        Name: string;
        /**
         * @description Full commit id.
         * @example 2c26b46b68ffc68ff99b453c1d30413413422d70
         */
        CommitId: string;
        /**
         * @description Result of one check.
         * @enum {string}
         */
        State: "pending" | "success" | "failure" | "error";
        /**
         * @description Name of the check.
         * @default default
         * @example ci/build
         */
        Context: string;
        /** @description One report on one check. */
        StatusReport: {
            state: components["schemas"]["State"];
            context?: components["schemas"]["Context"];
            /**
             * @description What happened.
             * @example 412 tests passed
             */
            description?: string;
            /**
             * Format: http-url
             * @description URL with details, shown as a link. An `http` or `https` URL by the WHATWG URL standard, at most 2048 bytes
             *     in UTF-8, without whitespace and control characters.
             * @example https://ci.example.org/jobs/4711
             */
            target_url?: string;
            /**
             * @description Tells the runs of the check apart: any text that the reports of one run have in common, and those of others do
             *     not. It is not part of the status.
             * @example pipeline-4711
             */
            run?: string;
            /**
             * Format: int64
             * @description Milliseconds since the run began, measured at each attempt to send the report; 0 unless given. Requires `run`.
             * @example 240000
             */
            elapsed?: number;
            /**
             * @description Seconds for which the run claims the check: the report is stored only where no other run has the check, see
             *     `reportStatus`. Requires `run`.
             * @example 300
             */
            claim?: number;
        };
        /** @description The result of one check on one commit. */
        Status: {
            /**
             * Format: uuid
             * @description Identifier of the status record, a UUIDv7. A replacing report keeps it.
             */
            id: string;
            /** @description Full id of the commit, in lower case. */
            sha: string;
            context: components["schemas"]["Context"];
            state: components["schemas"]["State"];
            /** @description As reported; `null` when none was given. */
            description: string | null;
            /** @description As reported; `null` when none was given. */
            target_url: string | null;
            created_at: components["schemas"]["Timestamp"];
            updated_at: components["schemas"]["Timestamp"];
            /**
             * @description Until when the claim holds unless the run reports again, by the clock of the database, rounded down: in each
             *     response to a report with `claim` that was stored, and in no other. Count the seconds of `claim` from when the report
             *     was sent, instead of comparing this with another clock. A server of an earlier version leaves it out: then nobody
             *     has the check. With a result it means nothing.
             */
            claimed_until?: components["schemas"]["Timestamp"];
        };
        /** @description All statuses of one commit and the state computed from them. */
        CommitStatuses: {
            /**
             * @description `failure` if any status is `failure` or `error`; otherwise `pending` if any is `pending`; otherwise `success`;
             *     `null` when there are no statuses.
             */
            state: ("pending" | "success" | "failure") | null;
            /** @description Ordered by the code points of `context`. */
            statuses: components["schemas"]["Status"][];
        };
        /**
         * @description Pattern of contexts. `*` stands for any characters, `/` included; everything else matches exactly, and the whole
         *     context must match.
         * @example ci/*
         */
        ContextPattern: string;
        /**
         * @description Name of one context. It is no pattern, so it does not contain `*`.
         * @example deploy/prod
         */
        ExactContext: string;
        /**
         * @description Name of a branch, or full name of a tag.
         * @example main
         */
        Branch: string;
        /** @description Whether a commit has passed its required checks. */
        CommitVerdict: {
            /**
             * @description The verdict on the required contexts; on all contexts if no pattern is required.
             * @enum {string}
             */
            verdict: "pending" | "success" | "failure";
            /** @description The combined state of all contexts of the commit, required or not; `null` when there are none. */
            state: ("pending" | "success" | "failure") | null;
            /** @description The required patterns, each once: those of `require` as sent, then those of rules. */
            required: components["schemas"]["RequiredPattern"][];
        };
        /** @description The state of a required pattern. */
        RequiredPattern: {
            pattern: components["schemas"]["ContextPattern"];
            /** @description The combined state of the contexts that the pattern matches; `null` when it matches none. */
            state: ("pending" | "success" | "failure") | null;
            /** @description The reported contexts that the pattern matches, ordered by code points. */
            contexts: components["schemas"]["Context"][];
        };
        /** @description How many statuses of a commit have which state. */
        StateCounts: {
            pending: number;
            success: number;
            failure: number;
            error: number;
        };
        /** @description The last commit of a branch that passed, among those looked at. */
        LastPassed: {
            /** @description Name of the branch, without `refs/heads/`. */
            branch: components["schemas"]["Branch"];
            /** @description The commit; `null` if none of those looked at has passed, or `unless` passes over all that have. */
            commit: components["schemas"]["PassedCommit"] | null;
            /** @description How many commits were looked at, this one included. */
            looked_at: number;
            /** @description The last commit that was looked at, if `commit` is `null` and there are more: the next request's `after`. */
            next: string | null;
        };
        /** @description A commit whose required checks have passed. */
        PassedCommit: {
            /** @description Full id of the commit, in lower case. */
            sha: string;
            /** @description The combined state of all contexts of the commit, required or not. */
            state: ("pending" | "success" | "failure") | null;
            counts: components["schemas"]["StateCounts"];
        };
        /** @description A page of branches. */
        BranchPage: {
            /** @description Ordered by the code points of `name`. */
            branches: components["schemas"]["BranchSummary"][];
            /** @description The name after which the next page begins; `null` on the last page. */
            next: components["schemas"]["Branch"] | null;
            /** @description Number of branches on no page: names that are not UTF-8, or longer than `name` may be, cannot be sent. */
            left_out: number;
            /** @description Whether the repository has more branches than the server lists, which are the first 20,000. */
            truncated: boolean;
        };
        /** @description A page of branches that wait for a check. */
        AwaitingPage: {
            /** @description Ordered by the code points of `name`. */
            branches: components["schemas"]["AwaitingBranch"][];
            /** @description The name after which the next page begins; `null` on the last page. */
            next: components["schemas"]["Branch"] | null;
            /**
             * @description Number of branches that no page can contain, whether they wait or not: names that are not UTF-8, or longer than
             *     `name` may be, cannot be sent.
             */
            left_out: number;
            /** @description Whether the repository has more branches than the server lists, which are the first 20,000. */
            truncated: boolean;
        };
        /** @description A branch whose newest commit has no result of the check. */
        AwaitingBranch: {
            name: components["schemas"]["Branch"];
            /** @description Full id of the newest commit, in lower case. */
            sha: string;
            /** @description The state of the check, which is `pending`; `null` if nothing has reported it. */
            state: "pending" | null;
        };
        /** @description A branch, and what its newest commit has passed. */
        BranchSummary: {
            name: components["schemas"]["Branch"];
            /** @description Full id of the newest commit, in lower case. */
            sha: string;
            /** @description The combined state of all contexts of the commit; `null` when there are none. */
            state: ("pending" | "success" | "failure") | null;
            /** @description The verdict on the contexts that rules require; `null` without a rule that matches the branch. */
            verdict: ("pending" | "success" | "failure") | null;
            counts: components["schemas"]["StateCounts"];
        };
        /**
         * Format: date-time
         * @description UTC with whole seconds, always written `YYYY-MM-DDThh:mm:ssZ`.
         * @example 2026-01-31T12:00:00Z
         */
        Timestamp: string;
        /** @description Every error, of every operation. */
        Error: {
            /** @description What is wrong and what to do, for people. */
            error: string;
        };
    };
    responses: {
        /** @description The body is not valid JSON. */
        BadRequest: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description No token, an unknown, expired, revoked or malformed one, or an anonymous caller who cannot use the repository. */
        Unauthorized: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description The token lacks the `repo` scope, or is limited to other repositories or contexts, the repository reserves the
         *     context for other users, or the caller may only read and tried to write.
         */
        Forbidden: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description The repository, the commit or the branch does not exist, the commit is not on the branch, or the signed-in caller
         *     cannot see the repository.
         */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description The report changed nothing: a newer run has reported the context, the report is a `pending` of a run whose result
         *     is stored, or its `claim` is excluded by what is stored. Only a report with `run` gets this. Do not repeat it. With
         *     `Retry-After`, a new run may claim the check after that time.
         */
        Conflict: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                /**
                 * @description Seconds until the greater of both claims has passed, at least 1, and 1 over a `pending` without `run`; only for a claim
                 *     over a `pending`.
                 * @example 42
                 */
                "Retry-After"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The body is larger than 16,384 bytes. */
        ContentTooLarge: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description The content type is missing or not `application/json`, its charset is not UTF-8, or the body has a content
         *     encoding.
         */
        UnsupportedMediaType: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description A field or parameter is invalid, the commit id is not a full one, a report would add a context to a commit
         *     that already has as many contexts as this server allows, or no checks are required for a branch.
         */
        UnprocessableContent: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Too many failed authentication attempts from this address. */
        TooManyRequests: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                "Retry-After": components["headers"]["Retry-After"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service is temporarily unavailable. Repeat the request after `Retry-After`; that is always safe. */
        ServiceUnavailable: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Cache-Control": components["headers"]["No-Store"];
                Vary: components["headers"]["Vary"];
                "Retry-After": components["headers"]["Retry-After"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: {
        /**
         * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
         *     a missing repository.
         * @example acme
         */
        Owner: components["schemas"]["Name"];
        /**
         * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
         *     a missing repository.
         * @example rocket
         */
        Repo: components["schemas"]["Name"];
        /**
         * @description Full commit id, 40 hex digits, or 64 in a SHA-256 repository, in upper or lower case. An abbreviated id is
         *     invalid (`422`).
         * @example 2c26b46b68ffc68ff99b453c1d30413413422d70
         */
        Sha: components["schemas"]["CommitId"];
        /**
         * @description The `ETag` of an earlier response, a list of them, or `*`. If one of them is current, the response is `304`.
         * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
         */
        IfNoneMatch: string;
    };
    requestBodies: never;
    headers: {
        /**
         * @description Weak validator computed from the bytes of the body. Send it back as `If-None-Match`.
         * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
         */
        ETag: string;
        /**
         * @description Where the next page is: a reference relative to the request's URL, with all its parameters. Missing on
         *     the last page.
         * @example <?limit=1&after=main>; rel="next"
         */
        Link: string;
        /**
         * @description Identifies the request in the server's log.
         * @example 7d1f5c0e-3b4a-4c0d-9e52-8f6a1b2c3d4e
         */
        "X-Request-Id": string;
        /** @description Only the caller may store the response, and must revalidate it before each use. */
        "Cache-Control": "private, no-cache";
        /** @description Errors must not be stored. */
        "No-Store": "no-store";
        /** @description The response depends on the caller. */
        Vary: "Authorization";
        /**
         * @description Seconds to wait before the next attempt, at least 1.
         * @example 42
         */
        "Retry-After": string;
        /**
         * @description The scheme to authenticate with.
         * @example Bearer realm="commit-status"
         */
        "WWW-Authenticate": string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    reportStatus: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example acme
                 */
                owner: components["parameters"]["Owner"];
                /**
                 * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example rocket
                 */
                repo: components["parameters"]["Repo"];
                /**
                 * @description Full commit id, 40 hex digits, or 64 in a SHA-256 repository, in upper or lower case. An abbreviated id is
                 *     invalid (`422`).
                 * @example 2c26b46b68ffc68ff99b453c1d30413413422d70
                 */
                sha: components["parameters"]["Sha"];
            };
            cookie?: never;
        };
        /** @description At most 16,384 bytes of JSON in UTF-8. Fields that are not listed are ignored. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["StatusReport"];
            };
        };
        responses: {
            /** @description The report is stored. The body is the status as it is now. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Status"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["ContentTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableContent"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listStatuses: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of an earlier response, a list of them, or `*`. If one of them is current, the response is `304`.
                 * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example acme
                 */
                owner: components["parameters"]["Owner"];
                /**
                 * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example rocket
                 */
                repo: components["parameters"]["Repo"];
                /**
                 * @description Full commit id, 40 hex digits, or 64 in a SHA-256 repository, in upper or lower case. An abbreviated id is
                 *     invalid (`422`).
                 * @example 2c26b46b68ffc68ff99b453c1d30413413422d70
                 */
                sha: components["parameters"]["Sha"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The combined state and every status of the commit. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommitStatuses"];
                };
            };
            /** @description The response has not changed since the one whose `ETag` is in `If-None-Match`. No body. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["UnprocessableContent"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getVerdict: {
        parameters: {
            query?: {
                /**
                 * @description Patterns of required contexts, one for each repetition of the parameter: `?require=ci/*&require=lint`. `*` stands
                 *     for any characters, `/` included; a pattern matches the whole context. A comma is part of the pattern. All
                 *     patterns together may match at most 10,000 contexts, each counted once for every pattern.
                 *
                 *     The first reported context that a pattern with `*` matches meets it, whatever has not reported yet. So name at
                 *     least one context exactly, such as the check that reports last.
                 * @example [
                 *       "ci/*",
                 *       "lint"
                 *     ]
                 */
                require?: components["schemas"]["ContextPattern"][];
                /**
                 * @description Name of a branch. The patterns of all rules that match it are required too, with or without `refs/heads/`. A branch
                 *     without a rule adds nothing. With `refs/tags/` it is the full name of a tag, and rules of branches add nothing. An
                 *     annotated tag has an id of its own: `sha` is that of its commit (`git rev-parse 'v1^{commit}'`).
                 * @example main
                 */
                branch?: components["schemas"]["Branch"];
                /**
                 * @deprecated
                 * @description Without effect: the server responds immediately. Deprecated since 2026-11-22; the next major version may remove it,
                 *     not before 2027-11-22.
                 */
                wait?: number;
            };
            header?: {
                /**
                 * @description The `ETag` of an earlier response, a list of them, or `*`. If one of them is current, the response is `304`.
                 * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example acme
                 */
                owner: components["parameters"]["Owner"];
                /**
                 * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example rocket
                 */
                repo: components["parameters"]["Repo"];
                /**
                 * @description Full commit id, 40 hex digits, or 64 in a SHA-256 repository, in upper or lower case. An abbreviated id is
                 *     invalid (`422`).
                 * @example 2c26b46b68ffc68ff99b453c1d30413413422d70
                 */
                sha: components["parameters"]["Sha"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The verdict, and the state of each required pattern. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommitVerdict"];
                };
            };
            /** @description The verdict has not changed since the response whose `ETag` is in `If-None-Match`. No body. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["UnprocessableContent"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getLastPassed: {
        parameters: {
            query: {
                /**
                 * @description Name of a branch, with or without `refs/heads/`. One that does not exist gets `404`, a tag `422`.
                 * @example main
                 */
                branch: components["schemas"]["Branch"];
                /**
                 * @description Patterns of required contexts, beside those of rules: as for `getVerdict`. Name at least one context exactly:
                 *     where no rule matches the branch, and all patterns contain `*`, the response is `422`.
                 * @example [
                 *       "ci/build"
                 *     ]
                 */
                require?: components["schemas"]["ContextPattern"][];
                /**
                 * @description Exact name of a context that a deployment reports, for example. Commits on which it is `failure` or `error` are
                 *     passed over. It is not required: a commit on which it has not reported can pass, and where no rule matches the
                 *     branch and nothing is in `require`, the response is `422`.
                 * @example deploy/prod
                 */
                unless?: components["schemas"]["ExactContext"];
                /**
                 * @description Begins after this commit, the `next` of an earlier response or another one that the branch was at. After one that
                 *     a forced push has removed, the commits follow that the branch was at before it. If the branch was not at it, or is
                 *     not known to have been after a forced push, the response is `404`, and the search begins again without `after`.
                 */
                after?: components["schemas"]["CommitId"];
            };
            header?: {
                /**
                 * @description The `ETag` of an earlier response, a list of them, or `*`. If one of them is current, the response is `304`.
                 * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example acme
                 */
                owner: components["parameters"]["Owner"];
                /**
                 * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example rocket
                 */
                repo: components["parameters"]["Repo"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The commit, or null if none of those looked at has passed, or `unless` passes over all that have. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LastPassed"];
                };
            };
            /** @description The answer has not changed since the response whose `ETag` is in `If-None-Match`. No body. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["UnprocessableContent"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listBranches: {
        parameters: {
            query?: {
                /**
                 * @description Only branches whose whole name matches this pattern, as in rules: `*` stands for any characters, `/` included;
                 *     everything else matches exactly.
                 * @example release/*
                 */
                match?: components["schemas"]["Branch"];
                /** @description Only branches whose newest commit has this verdict. */
                verdict?: "pending" | "success" | "failure";
                /** @description Maximum number of branches of the page. */
                limit?: number;
                /** @description Begins after this name, the `next` of an earlier response. It need not be that of a branch any more. */
                after?: components["schemas"]["Branch"];
            };
            header?: {
                /**
                 * @description The `ETag` of an earlier response, a list of them, or `*`. If one of them is current, the response is `304`.
                 * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example acme
                 */
                owner: components["parameters"]["Owner"];
                /**
                 * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example rocket
                 */
                repo: components["parameters"]["Repo"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description One page. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BranchPage"];
                };
            };
            /** @description The page has not changed since the response whose `ETag` is in `If-None-Match`. No body. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["UnprocessableContent"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listAwaiting: {
        parameters: {
            query: {
                /**
                 * @description Exact name of the check; `*` stands for itself.
                 * @example ci
                 */
                context: string;
                /**
                 * @description Only branches whose whole name matches this pattern, as in rules: `*` stands for any characters, `/` included;
                 *     everything else matches exactly.
                 * @example release/*
                 */
                match?: components["schemas"]["Branch"];
                /** @description Maximum number of branches of the page. */
                limit?: number;
                /** @description Begins after this name, the `next` of an earlier response. It need not be that of a branch any more. */
                after?: components["schemas"]["Branch"];
            };
            header?: {
                /**
                 * @description The `ETag` of an earlier response, a list of them, or `*`. If one of them is current, the response is `304`.
                 * @example W/"3xWn1Qm0uYk5c1c3Jb2k0gT7hZe"
                 */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /**
                 * @description Owner of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example acme
                 */
                owner: components["parameters"]["Owner"];
                /**
                 * @description Name of the repository, matched without regard to ASCII case. An invalid name gets the same response as
                 *     a missing repository.
                 * @example rocket
                 */
                repo: components["parameters"]["Repo"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description One page. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AwaitingPage"];
                };
            };
            /** @description The page has not changed since the response whose `ETag` is in `If-None-Match`. No body. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            422: components["responses"]["UnprocessableContent"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
}
