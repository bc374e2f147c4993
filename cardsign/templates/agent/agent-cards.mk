.PHONY: check-a2a-contracts check-a2a-contracts-full a2a-inspector-dev
check-a2a-contracts:  ## JSON and contract rules of every card
	cardsign lint agents --group json --group contract

check-a2a-contracts-full:  ## all rules, those of A2A on the card that is built of each
	cardsign lint agents --group json --group contract --group secrets --strict
	for card in agents/*/.well-known/agent-card.json; do \
	  cardsign build -q "$$card" --url 'https://agents.example.com/{name}' -o - | \
	  cardsign lint - --ignore meaning.placeholder || exit 1; done

a2a-inspector-dev:  ## a report of every card by every rule, to read
	-cardsign lint agents --fail-on error
