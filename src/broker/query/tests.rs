use super::*;

const NAMED: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini];

#[test]
fn known_names_go_on_as_they_came() {
    for (provider, query, kept) in [
        (Provider::Anthropic, "beta=true", "beta=true"),
        (Provider::Anthropic, "%62eta=%74rue", "%62eta=%74rue"),
        (
            Provider::Anthropic,
            "limit=20&after_id=a%2Fb+c&before_id=b",
            "limit=20&after_id=a%2Fb+c&before_id=b",
        ),
        (Provider::Anthropic, "&&beta&", "beta"),
        (
            Provider::Anthropic,
            "x=1&beta=a=b&y=2&limit=",
            "beta=a=b&limit=",
        ),
        (
            Provider::OpenAi,
            "after=a&limit=2&order=asc",
            "after=a&limit=2&order=asc",
        ),
        (
            Provider::OpenAi,
            "stream=true&starting_after=3&client_version=1",
            "stream=true&starting_after=3",
        ),
        (Provider::Gemini, "alt=sse", "alt=sse"),
        (Provider::Gemini, "alt=%73se&key=k", "alt=%73se"),
        (
            Provider::Gemini,
            "pageSize=1&alt=json&pageToken=t",
            "pageSize=1&alt=json&pageToken=t",
        ),
        (
            Provider::Custom,
            "b=2&a=1&a=1&empty&&=x&K=%C3%A4",
            "b=2&a=1&a=1&empty&=x&K=%C3%A4",
        ),
        (
            Provider::Custom,
            "keys=1&monkey=2&page_token=3&alt=media",
            "keys=1&monkey=2&page_token=3&alt=media",
        ),
    ] {
        assert_eq!(
            outgoing(provider, query),
            Ok(Some(kept.to_owned())),
            "{query}"
        );
    }
}

#[test]
fn no_credential_passes() {
    for provider in Provider::ALL {
        for query in [
            "",
            "&",
            "&&",
            "key=attacker",
            "%6bey=attacker",
            "%6B%65%79=attacker",
            "key",
            "key=a&key=b",
            "KEY=a",
            "Key=a",
            "key%20=a",
            "+key=a",
            "key[]=a",
            "key%5B%5D=a",
            "[key]=a",
            "api_key=a",
            "api-key=a",
            "apiKey=a",
            "apikey=a",
            "ApiKey=a",
            "api.key=a",
            "api+key=a",
            "api%5fkey=a",
            "access_token=a",
            "accessToken=a",
            "access-token=a",
            "access%5Ftoken=a",
            "ACCESS_TOKEN=a",
            "oauth_token=a",
            "oauthToken=a",
            "x-api-key=a",
            "x_api_key=a",
            "x-goog-api-key=a",
            "authorization=a",
            "Authorization=Basic+a",
            "proxy-authorization=a",
            "$httpHeaders=Authorization:a",
            "%24httpHeaders=a",
            "$httpMethod=DELETE",
        ] {
            assert_eq!(outgoing(provider, query), Ok(None), "{provider} {query}");
        }
    }
}

#[test]
fn what_a_named_provider_does_not_know_is_dropped() {
    for provider in NAMED {
        for query in [
            "x=1",
            "x=1&x=2",
            "BETA=1",
            "Limit=1",
            "Alt=media",
            "$alt=media",
            "beta[]=1",
            "pagesize=1",
            "callback=f",
            "%C3%A4=1",
        ] {
            assert_eq!(outgoing(provider, query), Ok(None), "{provider} {query}");
        }
    }
}

#[test]
fn what_reads_more_than_one_way_is_refused() {
    for (provider, query, reason) in [
        (Provider::Anthropic, "beta=true&beta=true", "query-twice"),
        (Provider::Anthropic, "beta=true&%62eta=false", "query-twice"),
        (Provider::OpenAi, "limit=1&after=a&limit", "query-twice"),
        (Provider::Gemini, "alt=sse&alt=json", "query-twice"),
        (Provider::Gemini, "alt=media", "query-alt"),
        (Provider::Gemini, "alt=%6Dedia", "query-alt"),
        (Provider::Gemini, "alt=proto", "query-alt"),
        (Provider::Gemini, "alt=SSE", "query-alt"),
        (Provider::Gemini, "alt=", "query-alt"),
        (Provider::Gemini, "alt", "query-alt"),
    ] {
        assert_eq!(
            outgoing(provider, query).map_err(|unfit| unfit.reason),
            Err(reason),
            "{query}"
        );
    }
    for provider in Provider::ALL {
        for (query, reason) in [
            ("x=%", "query-encoding"),
            ("x=%4", "query-encoding"),
            ("x=%zz", "query-encoding"),
            ("x=%+1", "query-encoding"),
            ("%=x", "query-encoding"),
            ("a=1&%6=x", "query-encoding"),
            ("%256bey=a", "query-name"),
            ("key%00=a", "query-name"),
            ("key%0d%0a=a", "query-name"),
            ("x%7f=a", "query-name"),
            ("limit=1;key=a", "query-semicolon"),
            ("a;b", "query-semicolon"),
        ] {
            let unfit = outgoing(provider, query).expect_err(query);
            assert_eq!(unfit, bad_request(reason), "{provider} {query}");
            assert_eq!((unfit.status, unfit.close), (400, false));
        }
    }
}

#[test]
fn lists_of_known_names_fit_the_marks_of_what_was_seen() {
    for list in [ANTHROPIC, OPENAI, GEMINI] {
        assert!(u32::try_from(list.len()).is_ok_and(|count| count <= u32::BITS));
    }
}
